"""The operations on single objects: put, get, head, delete, copy, append."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import BinaryIO, Dict, Tuple
from urllib.parse import unquote

from ma_boot.rehearsal.obs_server.call import Call
from ma_boot.rehearsal.obs_server.storage import BucketObject, Refusal
from ma_boot.rehearsal.obs_server.wire import HttpResponse, Received, is_modified, responses, wanted_range
from path_mapping.localfs import chunks, crc64


def put(call: Call) -> HttpResponse:
    """Stores the body as an object."""
    bucket = call.bucket
    path = bucket.new_file()
    received = call.body.to_file(path)
    stored = BucketObject(
        call.key,
        received.size,
        received.md5,
        received.crc64,
        call.now,
        call.kept_headers(),
        call.metadata(),
        path=str(path),
    )
    bucket.put(stored)
    return HttpResponse(200, checksum_headers(call, stored.etag, stored.crc64))


def checksum_headers(call: Call, etag: str, crc: int) -> Dict[str, str]:
    """The headers with the checksums of a content."""
    return {"ETag": f'"{etag}"', f"{call.prefix}checksum-crc64ecma": str(crc)}


def get(call: Call) -> HttpResponse:
    """Sends the object or a range of it; a range comes without the CRC-64, which is that of the whole."""
    stored, file = call.bucket.open(call.key)
    try:
        headers = _described(call, stored)
        if not is_modified(call.request.headers, stored.etag, stored.modified):
            file.close()
            return HttpResponse(304, headers)
        chosen = wanted_range(call.request.headers.get("range"), stored.size)
    except Refusal:
        file.close()
        raise
    if chosen is None:
        return HttpResponse(200, headers, file=file, length=stored.size)
    offset, length = chosen
    headers["Content-Range"] = f"bytes {offset}-{offset + length - 1}/{stored.size}"
    del headers[f"{call.prefix}checksum-crc64ecma"]
    return HttpResponse(206, headers, file=file, offset=offset, length=length)


def _described(call: Call, stored: BucketObject) -> Dict[str, str]:
    headers = {name.title(): value for name, value in stored.headers.items()}
    headers.setdefault("Content-Type", "binary/octet-stream")
    headers["Last-Modified"] = formatdate(stored.modified, usegmt=True)
    headers["Accept-Ranges"] = "bytes"
    headers.update(checksum_headers(call, stored.etag, stored.crc64))
    headers.update({f"{call.prefix}meta-{name}": value for name, value in stored.metadata.items()})
    if stored.appendable:
        headers["x-obs-object-type"] = "Appendable"
        headers["x-obs-next-append-position"] = str(stored.size)
    return headers


def delete(call: Call) -> HttpResponse:
    """Deletes the object if it exists."""
    call.bucket.delete(call.key)
    return HttpResponse(204)


def copy(call: Call) -> HttpResponse:
    """Copies another object, with its metadata or with that of the request."""
    source, file = source_of(call)
    with file:
        if not is_modified(call.request.headers, source.etag, source.modified, f"{call.prefix}copy-source-"):
            raise Refusal("PreconditionFailed", "the source of the copy has been modified")
        path = call.bucket.new_file()
        with path.open("wb", buffering=0) as target:
            _append_bytes(file, source.size, target)
    stored = replace(source, key=call.key, modified=call.now, appendable=False, path=str(path))
    if call.header("metadata-directive") in ("REPLACE", "REPLACE_NEW"):
        stored = replace(stored, headers=call.kept_headers(), metadata=call.metadata())
    return responses.copied("CopyObjectResult", call.bucket.put(stored), call.prefix)


def source_of(call: Call) -> Tuple[BucketObject, BinaryIO]:
    """The source of a copy, and its content."""
    named = unquote(call.header("copy-source") or "").lstrip("/")
    bucket, _, key = named.partition("?versionId=")[0].partition("/")
    return call.buckets.get(bucket).open(key)


def append(call: Call) -> HttpResponse:
    """Appends the body to an appendable object, or creates one.

    As in OBS, the resulting ETag is not the MD5 of the content.
    """
    position = call.parameter("position")
    if not position.isdecimal():
        raise Refusal("InvalidArgument", "position is not a number")
    bucket = call.bucket
    addition = bucket.new_file()
    received = call.body.to_file(addition)
    try:
        with bucket.appending:  # of two that name the same position the second is refused
            stored = _appended(call, int(position), addition, received)
            bucket.put(stored)
    finally:
        os.unlink(addition)
    headers = checksum_headers(call, stored.etag, stored.crc64)
    return HttpResponse(200, {**headers, "x-obs-next-append-position": str(stored.size)})


def _appended(call: Call, position: int, addition: Path, received: Received) -> BucketObject:
    try:
        earlier = call.bucket.get(call.key)
    except Refusal:
        earlier = BucketObject(call.key, 0, "", 0, 0, call.kept_headers(), call.metadata(), appendable=True)
    _check_position(earlier, position)
    path = _joined(call.bucket.new_file(), earlier, addition, received.size)
    etag = hashlib.md5(f"{earlier.etag}{received.md5}".encode()).hexdigest()
    size, crc = earlier.size + received.size, _crc64_of(path)
    return replace(earlier, size=size, etag=etag, crc64=crc, modified=call.now, path=str(path))


def _check_position(stored: BucketObject, position: int) -> None:
    if not stored.appendable:
        raise Refusal("ObjectNotAppendable", "the object is not appendable")
    if stored.size != position:
        raise Refusal("PositionNotEqualToLength", f"the object has {stored.size} bytes")


def _joined(path: Path, earlier: BucketObject, addition: Path, size: int) -> Path:
    with path.open("wb", buffering=0) as target:
        if earlier.size:
            with open(earlier.path, "rb") as file:
                _append_bytes(file, earlier.size, target)
        with addition.open("rb") as file:
            _append_bytes(file, size, target)
    return path


def _append_bytes(source: BinaryIO, size: int, target: BinaryIO) -> None:
    done = 0
    while done < size:
        copied = os.sendfile(target.fileno(), source.fileno(), done, size - done)
        if not copied:
            raise OSError("the file of an object is shorter than the object")
        done += copied


def _crc64_of(path: Path) -> int:
    crc = 0
    for piece in chunks(path):
        crc = crc64(piece, crc)
    return crc
