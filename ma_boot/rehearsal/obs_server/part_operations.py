"""What can be asked of an upload in parts."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ma_boot.rehearsal.obs_server.call import Call, texts
from ma_boot.rehearsal.obs_server.object_operations import marks, source_of
from ma_boot.rehearsal.obs_server.storage.listing import PAGE
from ma_boot.rehearsal.obs_server.storage.objects import Part, Upload
from ma_boot.rehearsal.obs_server.storage.refusals import Refusal
from ma_boot.rehearsal.obs_server.storage.uploads import MAX_PARTS
from ma_boot.rehearsal.obs_server.wire import answers
from ma_boot.rehearsal.obs_server.wire.answers import Answer
from ma_boot.rehearsal.obs_server.wire.body import CHUNK
from ma_boot.rehearsal.obs_server.wire.conditions import wanted_range


def begin(call: Call) -> Answer:
    """Begins an upload."""
    call.need_bucket()
    upload = call.store.uploads.begin(
        call.bucket_name, call.key, call.kept_headers(), call.metadata(), call.now
    )
    return answers.begun(upload, call.prefix)


def _upload(call: Call) -> Upload:
    call.need_bucket()
    return call.store.uploads.get(call.bucket_name, call.key, call.parameter("uploadId"))


def put(call: Call) -> Answer:
    """Stores the body, or a range of an object, as a part."""
    upload, text = _upload(call), call.parameter("partNumber")
    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= MAX_PARTS:
        raise Refusal("InvalidArgument", f"partNumber is none from 1 to {MAX_PARTS}")
    path = call.store.uploads.new_file(upload)
    if call.header("copy-source") is not None:
        part = _copied(call, number, path)
        call.store.uploads.add(upload, part)
        return answers.copied_part(part, call.prefix)
    received = call.body.to_file(path, call.prefix)
    call.store.uploads.add(upload, Part(number, received.size, received.md5, call.now, str(path)))
    return Answer(200, marks(call, received.md5, received.crc64))


def _copied(call: Call, number: int, path: Path) -> Part:
    source, file = source_of(call)
    with file, path.open("wb", buffering=0) as target:
        offset, size = wanted_range(call.header("copy-source-range"), source.size) or (0, source.size)
        file.seek(offset)
        md5, left = hashlib.md5(), size
        while left:
            piece = file.read(min(CHUNK, left))
            md5.update(piece)
            left -= target.write(piece)
    return Part(number, size, md5.hexdigest(), call.now, str(path))


def parts(call: Call) -> Answer:
    """The parts that are there."""
    after, limit = call.number("part-number-marker", 0, MAX_PARTS), call.number("max-parts", PAGE, PAGE)
    return answers.parts(_upload(call), after, limit, call.prefix)


def complete(call: Call) -> Answer:
    """Makes the parts that the body names the object."""
    upload, root = _upload(call), call.document()
    numbers, etags = texts(root, "Part/PartNumber"), texts(root, "Part/ETag")
    if len(numbers) != len(etags) or not all(number.isdecimal() for number in numbers):
        raise Refusal("MalformedXML", "parts with PartNumber and ETag were expected")
    wanted = [(int(number), etag) for number, etag in zip(numbers, etags)]
    stored = call.store.uploads.complete(upload, wanted, call.bucket, call.now)
    answer = answers.completed(upload, stored, call.prefix)
    answer.headers.update(marks(call, stored.etag, stored.crc64))
    return answer


def abort(call: Call) -> Answer:
    """Forgets the upload."""
    call.store.uploads.abort(_upload(call))
    return Answer(204)


def pending(call: Call) -> Answer:
    """The uploads of a bucket that are not complete."""
    call.need_bucket()
    key, upload_id, prefix = (call.parameter(name) for name in ("key-marker", "upload-id-marker", "prefix"))
    found = [one for one in call.store.uploads.of(call.bucket_name) if one.key.startswith(prefix)]
    ids = [upload.id for upload in found]
    if upload_id in ids:
        found = found[ids.index(upload_id) + 1 :]
    elif key:
        found = [upload for upload in found if upload.key > key]
    limit = call.number("max-uploads", PAGE, PAGE)
    return answers.uploads(call.bucket_name, found, limit, call.is_url_encoded, call.prefix)
