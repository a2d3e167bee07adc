"""The operations of multipart uploads."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ma_boot.rehearsal.obs_server.call import Call, texts
from ma_boot.rehearsal.obs_server.object_operations import checksum_headers, source_of
from ma_boot.rehearsal.obs_server.storage import MAX_KEYS, MAX_PARTS, Refusal, Upload, UploadPart
from ma_boot.rehearsal.obs_server.wire import CHUNK, HttpResponse, responses, wanted_range


def initiate(call: Call) -> HttpResponse:
    """Initiates an upload."""
    call.buckets.get(call.bucket_name)
    upload = call.uploads.initiate(call.bucket_name, call.key, call.kept_headers(), call.metadata(), call.now)
    return responses.initiated(upload, call.prefix)


def _upload(call: Call) -> Upload:
    call.buckets.get(call.bucket_name)
    return call.uploads.get(call.bucket_name, call.key, call.parameter("uploadId"))


def put(call: Call) -> HttpResponse:
    """Stores the body, or a range of an object, as a part."""
    upload, text = _upload(call), call.parameter("partNumber")
    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= MAX_PARTS:
        raise Refusal("InvalidArgument", f"expected a partNumber from 1 to {MAX_PARTS}")
    path = call.uploads.new_file(upload)
    if call.header("copy-source") is not None:
        part = _copied(call, number, path)
        call.uploads.add(upload, part)
        return responses.copied("CopyPartResult", part, call.prefix)
    received = call.body.to_file(path)
    call.uploads.add(upload, UploadPart(number, received.size, received.md5, call.now, str(path)))
    return HttpResponse(200, checksum_headers(call, received.md5, received.crc64))


def _copied(call: Call, number: int, path: Path) -> UploadPart:
    source, file = source_of(call)
    with file, path.open("wb", buffering=0) as target:
        offset, size = wanted_range(call.header("copy-source-range"), source.size) or (0, source.size)
        file.seek(offset)
        md5, left = hashlib.md5(), size
        while left:
            piece = file.read(min(CHUNK, left))
            md5.update(piece)
            left -= target.write(piece)
    return UploadPart(number, size, md5.hexdigest(), call.now, str(path))


def parts(call: Call) -> HttpResponse:
    """Lists the parts."""
    after, limit = (
        call.number("part-number-marker", 0, MAX_PARTS),
        call.number("max-parts", MAX_KEYS, MAX_KEYS),
    )
    return responses.parts(_upload(call), after, limit, call.prefix)


def complete(call: Call) -> HttpResponse:
    """Assembles the object from the parts listed in the body."""
    upload, root = _upload(call), call.document()
    numbers, etags = texts(root, "Part/PartNumber"), texts(root, "Part/ETag")
    if len(numbers) != len(etags) or not all(number.isdecimal() for number in numbers):
        raise Refusal("MalformedXML", "expected parts with PartNumber and ETag")
    wanted = [(int(number), etag) for number, etag in zip(numbers, etags)]
    completed = call.uploads.complete(upload, wanted, call.bucket, call.now)
    response = responses.completed(upload, completed, call.prefix)
    response.headers.update(checksum_headers(call, completed.etag, completed.crc64))
    return response


def abort(call: Call) -> HttpResponse:
    """Aborts the upload."""
    call.uploads.abort(_upload(call))
    return HttpResponse(204)


def pending(call: Call) -> HttpResponse:
    """Lists the uploads in progress of a bucket."""
    call.buckets.get(call.bucket_name)
    key, upload_id, prefix = (call.parameter(name) for name in ("key-marker", "upload-id-marker", "prefix"))
    found = [one for one in call.uploads.of(call.bucket_name) if one.key.startswith(prefix)]
    ids = [upload.id for upload in found]
    if upload_id in ids:
        found = found[ids.index(upload_id) + 1 :]
    elif key:
        found = [upload for upload in found if upload.key > key]
    limit = call.number("max-uploads", MAX_KEYS, MAX_KEYS)
    return responses.uploads(call.bucket_name, found, limit, call.is_url_encoded, call.prefix)
