"""OBS as a store: by signed requests, and by Huawei's SDK (`obs_sdk`) for rare operations."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Callable, TypeVar

from path_mapping.errors import Forbidden, NotFound, Refused, Unreachable
from path_mapping.localfs.source_file import chunks, md5_of
from path_mapping.stores.access import Access, Credentials
from path_mapping.stores.contents import RIGHT, ContentSum, Piece, base64_of_md5, etag_of_parts
from path_mapping.stores.data_path import DataPath, if_match
from path_mapping.stores.exchange import Exchange, Request
from path_mapping.stores.http_connection import HttpConnection, OpenConnections, Response
from path_mapping.stores.objects import Checksums, ObjectState, StoredObject
from path_mapping.stores.obs_sdk import ObsSdk, delete_by_sdk, seconds_of
from path_mapping.stores.responses import (
    ObjectPage,
    object_state,
    parse_completion,
    parse_page,
    parse_size,
    parse_upload,
    parts_document,
)
from path_mapping.stores.signer import Signer, log_warning
from path_mapping.stores.store import Store, UnfinishedUpload
from path_mapping.stores.units import MultipartUpload, UnitRunner

# Entries of one page, the most that OBS returns (API reference, "Listing Objects in a Bucket").
PAGE = 1000
# Bytes: a page in one piece.
BUFFER = 1 << 20
# Bytes of the buffer for other responses.
_ANSWER_BYTES = 1 << 16
# Bytes that OBS copies in one request (API reference, "Copying Objects").
LARGEST_COPY = 5 << 30
# Bytes of a data path: a small object arrives in one piece, a large one with few system calls. Larger writes
# are no faster, and take up to twice as long on a virtual machine: they become large folios, of memory that
# the host has yet to give.
DATA_BUFFER = 1 << 19
# OBS and S3 do not tell a client that must not list whether an object exists.
_MISSING_OR_FORBIDDEN = (
    "it does not exist, or may not be read (permissions GetObject, and ListBucket to tell)"
)

Answer = TypeVar("Answer")


class ObsStore(Store):
    """Objects in OBS, or in a service with its interface; create it after a fork. See `Signer`."""

    signer: Signer

    def __init__(
        self,
        access: Access,
        renew: Callable[[], Credentials] | None = None,
        patience: float = 0.0,
        announce: Callable[[str], None] = log_warning,
    ) -> None:
        self.signer = Signer(access, renew, patience, announce)
        self.multipart_from, self.part = access.multipart_from, access.part
        self._sdk = ObsSdk(self.signer)

    def __repr__(self) -> str:
        return f"ObsStore({self.signer.access.endpoint!r})"

    def runner(self, connections: OpenConnections) -> UnitRunner:
        buffer = bytearray(DATA_BUFFER)
        return DataPath(self, Exchange(self.signer, connections, buffer), buffer)

    def list(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        """See `Store.list`. The next page is requested while the caller works on this one."""
        return self._entries(bucket, prefix, "")

    def level(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        entries = self._entries(bucket, prefix, "/")
        return (entry._replace(md5=None) for entry in entries if entry.key != prefix)

    def _entries(self, bucket: str, prefix: str, delimiter: str) -> Iterator[StoredObject]:
        """Yields the objects and common prefixes of a listing.

        A full page is never taken for the last one, in case that a service does not mark it as truncated.
        Keys that do not ascend are an error: the listing would never end.
        """
        doing, marker = f"listing obs://{bucket}/{prefix}", ""
        with closing(self._exchange(BUFFER)) as exchange:

            def request() -> Request:
                query = {"prefix": prefix, "marker": marker, "delimiter": delimiter}
                used = {name: value for name, value in query.items() if value}
                used.update({"max-keys": str(PAGE), "encoding-type": "url"})
                return Request(doing, "GET", bucket, "", query=used)

            while True:
                content = self.signer.with_newest(lambda: exchange.content(request()))
                page = parse_page(doing, content)
                entries = _in_order(marker, page) if delimiter else page.objects
                check_order(doing, marker, entries)
                followed = page.truncated or len(entries) >= PAGE
                if followed and not entries:
                    raise Unreachable(f"{doing}: the next page has nothing that comes after {marker!r}")
                yield from entries[:1]
                marker = entries[-1].key if entries else ""
                # After the first object: some callers want no more, and need no second page.
                if followed:
                    exchange.send_ahead(request())
                yield from entries[1:]
                if not followed:
                    return

    def _exchange(self, buffer: int = _ANSWER_BYTES) -> Exchange:
        return Exchange(self.signer, OpenConnections(), bytearray(buffer))

    def _by_request(self, ask: Callable[[Exchange], Answer]) -> Answer:
        """Returns the result of `ask`, on a connection of its own."""
        with closing(self._exchange()) as exchange:
            return self.signer.with_newest(lambda: ask(exchange))

    def _content_of(self, request: Request, body: bytes = b"") -> bytes:
        return self._by_request(lambda exchange: exchange.content(request, body))

    def region(self, bucket: str) -> str:
        answer = self._sdk.call(
            f"looking up obs://{bucket}", bucket, "", lambda sdk: sdk.getBucketMetadata(bucket)
        )
        return str(getattr(answer.body, "location", None) or "")

    def find(self, bucket: str, key: str) -> ObjectState | None:
        doing = f"looking up obs://{bucket}/{key}"
        request = Request(doing, "HEAD", bucket, key)
        try:
            response = self._by_request(lambda exchange: exchange.head(request))
        except NotFound:
            return None
        except Forbidden as error:
            raise Forbidden(f"{error}: {_MISSING_OR_FORBIDDEN}") from error
        return object_state(doing, response.length, response.headers)

    def read(self, bucket: str, key: str) -> Generator[bytes, None, bool]:
        request = Request(f"reading obs://{bucket}/{key}", "GET", bucket, key)
        with self._opened(request) as (response, connection):
            stated = Checksums.stated(response.headers, response.length or 0)
            content = ContentSum(stated)
            for piece in connection.body(response):
                content.add(piece)
                yield bytes(piece)
        return content.check(request.doing, stated).verdict == RIGHT

    def read_from(self, bucket: str, key: str, offset: int, version: str = "") -> Iterator[bytes]:
        """See `Store.read_from`. If the server ignores ranges, the start is read and skipped."""
        doing = f"reading obs://{bucket}/{key}" + (f" from {offset}" if offset else "")
        plain = {"Range": f"bytes={offset}-"} if offset else {}
        with self._opened(Request(doing, "GET", bucket, key, plain={**plain, **if_match(version)})) as (
            response,
            connection,
        ):
            promised = response.text("content-range")
            if response.status == 206 and not promised.startswith(f"bytes {offset}-"):
                raise Unreachable(f"{doing}: found Content-Range {promised!r}, expected one from {offset}")
            skipped = 0 if response.status == 206 else offset
            for piece in connection.body(response):
                yield bytes(piece[skipped:])
                skipped = max(0, skipped - len(piece))

    @contextmanager
    def _opened(self, request: Request) -> Iterator[tuple[Response, HttpConnection]]:
        """Opens the response to a GET, whose body is read in the block."""
        with closing(self._exchange(BUFFER)) as exchange, ExitStack() as stack:
            yield self.signer.with_newest(
                lambda: stack.enter_context(exchange.ask(request, HttpConnection.send))
            )

    def copy(self, bucket: str, key: str, size: int, to_bucket: str, to_key: str) -> None:
        """See `Store.copy`. An object of more than 5 GiB is refused."""
        doing = f"copying obs://{bucket}/{key} to obs://{to_bucket}/{to_key}"
        if size > LARGEST_COPY:
            raise Refused(f"{doing}: found {size} bytes, expected at most 5 GiB: copy it via a local file")
        self._sdk.call(
            doing, to_bucket, to_key, lambda sdk: sdk.copyObject(bucket, key, to_bucket, to_key), "etag"
        )

    def delete(self, bucket: str, key: str) -> None:
        self._sdk.call(
            f"deleting obs://{bucket}/{key}", bucket, key, lambda sdk: sdk.deleteObject(bucket, key)
        )

    def delete_all(self, bucket: str, keys: Sequence[str]) -> None:
        """See `Store.delete_all`. Keys with characters that XML cannot carry are deleted one by one."""
        listed = [key for key in keys if key.isprintable()]
        if listed:
            delete_by_sdk(self._sdk, bucket, listed)
        for key in set(keys).difference(listed):
            self.delete(bucket, key)

    def write(self, bucket: str, key: str, source: Path, md5: str, sent: Callable[[int], None]) -> str:
        """See `Store.write`. It takes one request, whose MD5 OBS verifies; large files are sent in parts."""
        size = os.stat(source).st_size
        return self._put(bucket, key, lambda: chunks(source), size=size, md5=md5, sent=sent)

    def write_bytes(self, bucket: str, key: str, content: bytes) -> str:
        pieces = (content,) if content else ()
        return self._put(bucket, key, lambda: pieces, size=len(content), md5=md5_of(pieces))

    def _put(
        self,
        bucket: str,
        key: str,
        body: Callable[[], Iterable[Piece]],
        *,
        size: int,
        md5: str,
        sent: Callable[[int], None] = lambda size: None,
    ) -> str:
        """Stores an object by one request; returns its ETag."""
        headers = {"Content-MD5": base64_of_md5(md5)}
        request = Request(f"writing obs://{bucket}/{key}", "PUT", bucket, key, headers=headers)
        return self._by_request(lambda exchange: exchange.put_object(request, body, size, sent)).etag

    def begin_parts(self, bucket: str, key: str, left: tuple[str, ...] = ()) -> MultipartUpload:
        doing = f"writing obs://{bucket}/{key}"
        for upload in left[:-1]:
            self.abort_parts(bucket, key, upload)
        for upload in left[-1:]:
            with suppress(NotFound):
                return MultipartUpload(upload, tuple(self._parts(doing, bucket, key, upload)))
        request = Request(doing, "POST", bucket, key, {"uploads": ""}, plain={"Content-Length": "0"})
        return MultipartUpload(parse_upload(doing, self._content_of(request)), ())

    def _parts(self, doing: str, bucket: str, key: str, upload: str) -> Iterator[tuple[int, int, str]]:
        after = 0

        def page(sdk: Any) -> Any:
            return sdk.listParts(bucket, key, upload, PAGE, after or None)

        while True:
            body = self._sdk.call(doing, bucket, key, page, "parts").body
            for part in body.parts:
                number = parse_size(doing, part.partNumber)
                if number <= after:
                    raise Unreachable(f"{doing}: the service lists part {number} after part {after}")
                yield number, parse_size(doing, part.size), part.etag or ""
                after = number
            if not body.isTruncated or not body.parts:
                return

    def end_parts(
        self, bucket: str, key: str, upload: str, etags: tuple[str, ...], size: int, compared: bool = True
    ) -> str | None:
        """See `Store.end_parts`.

        The response may be lost, or have no ETag, after OBS made the object. Then the upload has gone, and
        the object is recognised by its size and its ETag, which is made of those of the parts; or which
        differs from the earlier one, if the parts were not `compared`. An upload that still exists is not
        completed.
        """
        doing = f"writing obs://{bucket}/{key}"
        expected, before = etag_of_parts(etags), "" if compared else self._etag_of(bucket, key, None)
        try:
            end = Request(doing, "POST", bucket, key, {"uploadId": upload})
            etag = parse_completion(doing, self._content_of(end, parts_document(etags)))
        except (NotFound, Unreachable) as error:
            if self._has_gone(doing, bucket, key, upload):
                etag = self._etag_of(bucket, key, size)
                return etag if etag and (etag == expected if compared else etag != before) else None
            if isinstance(error, Unreachable):
                raise
            self.abort_parts(bucket, key, upload)  # a part of it has gone
            return None
        return (etag or self._etag_of(bucket, key, size) or expected).strip('"')

    def _etag_of(self, bucket: str, key: str, size: int | None) -> str:
        """Returns the ETag of an object without quotes; empty without an object of this size in bytes."""
        state = self.find(bucket, key)
        return state.version.strip('"') if state is not None and size in (None, state.size) else ""

    def _has_gone(self, doing: str, bucket: str, key: str, upload: str) -> bool:
        """Tells whether an upload does not exist: radosgw answers 500 to its completion, not 404."""
        try:
            next(self._parts(doing, bucket, key, upload), None)
        except NotFound:
            return True
        return False

    def abort_parts(self, bucket: str, key: str, upload: str) -> None:
        doing = f"aborting the upload of obs://{bucket}/{key}"
        with suppress(NotFound):
            self._content_of(Request(doing, "DELETE", bucket, key, {"uploadId": upload}))

    def unfinished(self, bucket: str, prefix: str) -> Iterator[UnfinishedUpload]:
        doing = f"listing the multipart uploads of obs://{bucket}/{prefix}"
        from obs import ListMultipartUploadsRequest

        wanted = ListMultipartUploadsRequest(prefix=prefix or None, max_uploads=PAGE)
        asked: set[tuple[str | None, str | None]] = set()

        def page(sdk: Any) -> Any:
            return sdk.listMultipartUploads(bucket, wanted, encoding_type="url")

        while (wanted.key_marker, wanted.upload_id_marker) not in asked:
            asked.add((wanted.key_marker, wanted.upload_id_marker))
            body = self._sdk.call(doing, bucket, "", page, "upload").body
            for listed in body.upload:
                if listed.key and listed.uploadId and listed.key.startswith(prefix):
                    yield UnfinishedUpload(listed.key, listed.uploadId, seconds_of(listed.initiated))
            if not body.isTruncated:
                return
            wanted.key_marker = body.nextKeyMarker or None
            wanted.upload_id_marker = body.nextUploadIdMarker or None


def _in_order(marker: str, page: ObjectPage) -> list[StoredObject]:
    """Returns objects and common prefixes of a page in the order of their keys, after the marker."""
    entries = page.objects + [StoredObject(prefix, 0, None) for prefix in page.prefixes]
    return sorted((entry for entry in entries if entry.key > marker), key=lambda entry: entry.key)


def check_order(doing: str, marker: str, entries: Sequence[StoredObject]) -> None:
    """Raises `Unreachable` if the keys do not ascend from the marker."""
    for entry in entries:
        if entry.key <= marker:
            raise Unreachable(f"{doing}: {entry.key!r} came after {marker!r}")
        marker = entry.key
