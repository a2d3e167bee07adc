"""Requests for single objects and for their multipart uploads, as tasks on an exchange."""

from __future__ import annotations

from contextlib import suppress

from path_mapping.errors import Forbidden, NotFound, Unreachable
from path_mapping.stores.contents import etag_of_parts
from path_mapping.stores.exchange import Exchange, Request
from path_mapping.stores.objects import ObjectState
from path_mapping.stores.responses import (
    object_state,
    parse_completion,
    parse_parts,
    parse_upload,
    parts_document,
)
from path_mapping.stores.units import EndParts, MultipartUpload

# Entries of one page, the most that OBS returns (API reference, "Listing Objects in a Bucket").
PAGE = 1000
# OBS and S3 do not tell a client that must not list whether an object exists.
_MISSING_OR_FORBIDDEN = (
    "it does not exist, or may not be read (permissions GetObject, and ListBucket to tell)"
)


async def find(exchange: Exchange, bucket: str, key: str) -> ObjectState | None:
    """See `Store.find`."""
    doing = f"looking up obs://{bucket}/{key}"
    try:
        response = await exchange.head(Request(doing, "HEAD", bucket, key))
    except NotFound:
        return None
    except Forbidden as error:
        raise Forbidden(f"{error}: {_MISSING_OR_FORBIDDEN}") from error
    return object_state(doing, response.length, response.headers)


async def delete(exchange: Exchange, bucket: str, key: str) -> None:
    """See `Store.delete`."""
    with suppress(NotFound):
        await exchange.content(Request(f"deleting obs://{bucket}/{key}", "DELETE", bucket, key))


async def begin_parts(
    exchange: Exchange, bucket: str, key: str, left: tuple[str, ...] = ()
) -> MultipartUpload:
    """See `Store.begin_parts`."""
    doing = f"writing obs://{bucket}/{key}"
    for upload in left[:-1]:
        await abort_parts(exchange, bucket, key, upload)
    for upload in left[-1:]:
        with suppress(NotFound):
            return MultipartUpload(upload, await _parts(exchange, bucket, key, upload))
    request = Request(doing, "POST", bucket, key, {"uploads": ""}, plain={"Content-Length": "0"})
    return MultipartUpload(parse_upload(doing, await exchange.content(request)), ())


async def _parts(exchange: Exchange, bucket: str, key: str, upload: str) -> tuple[tuple[int, int, str], ...]:
    """Returns number, size in bytes and ETag of each part. Raises `NotFound` if the upload has gone."""
    doing, parts = f"writing obs://{bucket}/{key}", [(0, 0, "")]
    while True:
        query = {"uploadId": upload, "max-parts": str(PAGE)}
        if len(parts) > 1:
            query["part-number-marker"] = str(parts[-1][0])
        page, more = parse_parts(doing, await exchange.content(Request(doing, "GET", bucket, key, query)))
        for part in page:
            if part[0] <= parts[-1][0]:
                raise Unreachable(f"{doing}: the service lists part {part[0]} after part {parts[-1][0]}")
            parts.append(part)
        if not more or not page:
            return tuple(parts[1:])


async def end_parts(exchange: Exchange, unit: EndParts) -> str | None:
    """See `EndParts`.

    The response may be lost, or have no ETag, after OBS made the object. Then the upload has gone, and the
    object is recognised by its size and its ETag, which is made of those of the parts; or which differs from
    the earlier one, if the parts were not `compared`. An upload that still exists is not completed.
    """
    bucket, key, upload = unit.copy.bucket, unit.copy.key, unit.upload
    if not unit.etags:
        await abort_parts(exchange, bucket, key, upload)
        return ""
    doing, expected = f"writing {unit.copy.url}", etag_of_parts(unit.etags)
    before = "" if unit.compared else await _etag_of(exchange, bucket, key, None)
    try:
        end = Request(doing, "POST", bucket, key, {"uploadId": upload})
        etag = parse_completion(doing, await exchange.content(end, parts_document(unit.etags)))
    except (NotFound, Unreachable) as error:
        if await _has_gone(exchange, bucket, key, upload):
            etag = await _etag_of(exchange, bucket, key, unit.size)
            return etag if etag and (etag == expected if unit.compared else etag != before) else None
        if isinstance(error, Unreachable):
            raise
        await abort_parts(exchange, bucket, key, upload)  # a part of it has gone
        return None
    return (etag or await _etag_of(exchange, bucket, key, unit.size) or expected).strip('"')


async def _etag_of(exchange: Exchange, bucket: str, key: str, size: int | None) -> str:
    """Returns the ETag of an object without quotes; empty without an object of this size in bytes."""
    state = await find(exchange, bucket, key)
    return state.version.strip('"') if state is not None and size in (None, state.size) else ""


async def _has_gone(exchange: Exchange, bucket: str, key: str, upload: str) -> bool:
    """Tells whether an upload does not exist: radosgw answers 500 to its completion, not 404."""
    try:
        await _parts(exchange, bucket, key, upload)
    except NotFound:
        return True
    return False


async def abort_parts(exchange: Exchange, bucket: str, key: str, upload: str) -> None:
    """See `Store.abort_parts`."""
    doing = f"aborting the upload of obs://{bucket}/{key}"
    with suppress(NotFound):
        await exchange.content(Request(doing, "DELETE", bucket, key, {"uploadId": upload}))
