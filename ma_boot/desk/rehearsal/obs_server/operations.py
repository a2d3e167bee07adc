"""The operations on buckets, objects and multipart uploads, and which request asks for which."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass, replace
from email.utils import formatdate
from pathlib import Path
from typing import BinaryIO, Callable
from urllib.parse import quote, unquote, unquote_plus
from xml.etree import ElementTree

from ma_boot.desk.rehearsal.obs_server.buckets import MAX_KEYS, Bucket, BucketObject, Buckets, Refusal, join
from ma_boot.desk.rehearsal.obs_server.request import (
    CHUNK,
    Body,
    HttpRequest,
    Received,
    is_modified,
    wanted_range,
)
from ma_boot.desk.rehearsal.obs_server.responses import (
    HttpResponse,
    ListingQuery,
    buckets_document,
    copy_document,
    document,
    encoding,
    objects_document,
    parts_document,
    tags,
    uploads_document,
)
from ma_boot.desk.rehearsal.obs_server.signatures import SIGNED_PARAMETERS
from ma_boot.desk.rehearsal.obs_server.uploads import MAX_PARTS, Upload, UploadPart, Uploads

KEPT_HEADERS = (
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "expires",
)


@dataclass(frozen=True)
class Call:
    """The arguments of an operation; `now` is in seconds since 1970."""

    request: HttpRequest
    body: Body
    bucket_name: str
    key: str
    now: float
    buckets: Buckets
    uploads: Uploads

    @property
    def prefix(self) -> str:
        """The prefix of headers in the dialect of the request."""
        return self.request.prefix

    @property
    def bucket(self) -> Bucket:
        """The bucket that the request addresses; raises `Refusal` if it does not exist."""
        return self.buckets.get(self.bucket_name)

    def header(self, name: str) -> str | None:
        """A header of the dialect, by its name without the prefix."""
        return self.request.headers.get(self.prefix + name)

    def parameter(self, name: str) -> str:
        """A parameter of the query; empty if it is missing."""
        return self.request.parameters.get(name) or ""

    def number(self, name: str, default: int, highest: int) -> int:
        """A parameter that is a number from 0 on, capped at the highest; raises `Refusal` if it is none."""
        text = self.parameter(name)
        if text and not text.isdecimal():
            raise Refusal("InvalidArgument", f"{name} is not a number")
        return min(int(text), highest) if text else default

    @property
    def is_url_encoded(self) -> bool:
        """True if the response has to percent-encode keys."""
        return self.parameter("encoding-type") == "url"

    def kept_headers(self) -> dict[str, str]:
        """The standard headers that are stored with an object."""
        headers = self.request.headers
        return {name: headers[name] for name in KEPT_HEADERS if name in headers}

    def metadata(self) -> dict[str, str]:
        """The user's own metadata, as it was sent."""
        start = f"{self.prefix}meta-"
        headers = self.request.headers
        return {name[len(start) :]: value for name, value in headers.items() if name.startswith(start)}

    def document(self) -> ElementTree.Element:
        """The body as XML, with tags stripped of their namespace; raises `Refusal` if it is not XML."""
        try:
            root = ElementTree.fromstring(self.body.document())
        except ElementTree.ParseError as error:
            raise Refusal("MalformedXML", f"the body is not XML: {error}") from None
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2]
        return root


def texts(root: ElementTree.Element, path: str) -> list[str]:
    """The texts of all elements at a path."""
    return [element.text or "" for element in root.findall(path)]


def put_object(call: Call) -> HttpResponse:
    """Stores the body as an object, or copies an object."""
    if call.header("copy-source") is not None:
        return _copy_object(call)
    bucket = call.bucket
    path = bucket.new_file()
    received = call.body.to_file(path)
    stored = BucketObject(
        call.key,
        received.size,
        received.md5,
        crc64=received.crc64,
        modified=call.now,
        headers=call.kept_headers(),
        metadata=call.metadata(),
        path=str(path),
    )
    bucket.put(stored)
    return HttpResponse(200, checksum_headers(call, stored.etag, stored.crc64))


def checksum_headers(call: Call, etag: str, crc: int) -> dict[str, str]:
    """The headers with the checksums of a content."""
    return {"ETag": f'"{etag}"', f"{call.prefix}checksum-crc64ecma": str(crc)}


def get_object(call: Call) -> HttpResponse:
    """Sends the object or a range of it; a range comes without the CRC-64, which covers the whole object."""
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


def _described(call: Call, stored: BucketObject) -> dict[str, str]:
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


def delete_object(call: Call) -> HttpResponse:
    """Deletes the object if it exists."""
    call.bucket.delete(call.key)
    return HttpResponse(204)


def _copy_object(call: Call) -> HttpResponse:
    """Copies another object, with its own metadata or the request's."""
    source, file = _source_of(call)
    with file:
        if not is_modified(call.request.headers, source.etag, source.modified, f"{call.prefix}copy-source-"):
            raise Refusal("PreconditionFailed", "the source of the copy has been modified")
        path = call.bucket.new_file()
        with path.open("wb", buffering=0) as target:
            shutil.copyfileobj(file, target, CHUNK)
            if target.tell() != source.size:
                raise OSError("the file of an object has not the size of the object")
    stored = replace(source, key=call.key, modified=call.now, appendable=False, path=str(path))
    if call.header("metadata-directive") in ("REPLACE", "REPLACE_NEW"):
        stored = replace(stored, headers=call.kept_headers(), metadata=call.metadata())
    return copy_document("CopyObjectResult", call.bucket.put(stored), call.prefix)


def _source_of(call: Call) -> tuple[BucketObject, BinaryIO]:
    """The source of a copy, and its content."""
    named = unquote(call.header("copy-source") or "").lstrip("/")
    bucket, _, key = named.partition("?versionId=")[0].partition("/")
    return call.buckets.get(bucket).open(key)


def append_object(call: Call) -> HttpResponse:
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
    bucket = call.bucket
    try:
        earlier = bucket.get(call.key)
    except Refusal:
        earlier = BucketObject(
            call.key,
            0,
            "",
            crc64=0,
            modified=0,
            headers=call.kept_headers(),
            metadata=call.metadata(),
            appendable=True,
        )
    if not earlier.appendable:
        raise Refusal("ObjectNotAppendable", "the object is not appendable")
    if earlier.size != position:
        raise Refusal("PositionNotEqualToLength", f"the object has {earlier.size} bytes")
    path = bucket.new_file()
    size, crc = join([*([earlier.path] if earlier.path else []), str(addition)], path)
    etag = hashlib.md5(f"{earlier.etag}{received.md5}".encode()).hexdigest()
    return replace(earlier, size=size, etag=etag, crc64=crc, modified=call.now, path=str(path))


def begin_upload(call: Call) -> HttpResponse:
    """Initiates an upload."""
    call.buckets.get(call.bucket_name)
    upload = call.uploads.initiate(call.bucket_name, call.key, call.kept_headers(), call.metadata(), call.now)
    named = tags(Bucket=upload.bucket, Key=upload.key, UploadId=upload.id)
    return document("InitiateMultipartUploadResult", call.prefix, named)


def _upload(call: Call) -> Upload:
    call.buckets.get(call.bucket_name)
    return call.uploads.get(call.bucket_name, call.key, call.parameter("uploadId"))


def put_part(call: Call) -> HttpResponse:
    """Stores the body, or a range of an object, as a part."""
    upload, text = _upload(call), call.parameter("partNumber")
    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= MAX_PARTS:
        raise Refusal("InvalidArgument", f"expected a partNumber from 1 to {MAX_PARTS}")
    path = call.uploads.new_file()
    if call.header("copy-source") is not None:
        part = _copied_part(call, number, path)
        call.uploads.add(upload, part)
        return copy_document("CopyPartResult", part, call.prefix)
    received = call.body.to_file(path)
    call.uploads.add(upload, UploadPart(number, received.size, received.md5, call.now, str(path)))
    return HttpResponse(200, checksum_headers(call, received.md5, received.crc64))


def _copied_part(call: Call, number: int, path: Path) -> UploadPart:
    source, file = _source_of(call)
    with file, path.open("wb", buffering=0) as target:
        offset, size = wanted_range(call.header("copy-source-range"), source.size) or (0, source.size)
        file.seek(offset)
        md5, left = hashlib.md5(), size
        while left:
            piece = file.read(min(CHUNK, left))
            md5.update(piece)
            left -= target.write(piece)
    return UploadPart(number, size, md5.hexdigest(), call.now, str(path))


def list_parts(call: Call) -> HttpResponse:
    """Lists the parts."""
    after = call.number("part-number-marker", 0, MAX_PARTS)
    limit = call.number("max-parts", MAX_KEYS, MAX_KEYS)
    return parts_document(_upload(call), after, limit, call.prefix)


def complete_upload(call: Call) -> HttpResponse:
    """Assembles the object from the parts listed in the body."""
    upload, root = _upload(call), call.document()
    numbers, etags = texts(root, "Part/PartNumber"), texts(root, "Part/ETag")
    if len(numbers) != len(etags) or not all(number.isdecimal() for number in numbers):
        raise Refusal("MalformedXML", "expected parts with PartNumber and ETag")
    wanted = [(int(number), etag) for number, etag in zip(numbers, etags)]
    completed = call.uploads.complete(upload, wanted, call.bucket, call.now)
    place = f"/{upload.bucket}/{quote(upload.key)}"
    content = tags(Location=place, Bucket=upload.bucket, Key=upload.key, ETag=f'"{completed.etag}"')
    response = document("CompleteMultipartUploadResult", call.prefix, content)
    response.headers.update(checksum_headers(call, completed.etag, completed.crc64))
    return response


def abort_upload(call: Call) -> HttpResponse:
    """Aborts the upload."""
    call.uploads.abort(_upload(call))
    return HttpResponse(204)


def list_uploads(call: Call) -> HttpResponse:
    """Lists the uploads in progress of a bucket."""
    call.buckets.get(call.bucket_name)
    key, upload_id, prefix = (call.parameter(name) for name in ("key-marker", "upload-id-marker", "prefix"))
    uploads = [upload for upload in call.uploads.of(call.bucket_name) if upload.key.startswith(prefix)]
    ids = [upload.id for upload in uploads]
    if upload_id in ids:
        uploads = uploads[ids.index(upload_id) + 1 :]
    elif key:
        uploads = [upload for upload in uploads if upload.key > key]
    limit = call.number("max-uploads", MAX_KEYS, MAX_KEYS)
    return uploads_document(call.bucket_name, uploads, limit, call.is_url_encoded, call.prefix)


PLAIN = {  # signed parameters that do not select an operation
    "length",
    "name",
    "partNumber",
    "position",
    "versionId",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
}


def perform(call: Call) -> HttpResponse:
    """Performs the operation of a request; raises `Refusal` if it fails or is not implemented."""
    on = "object" if call.key else "bucket" if call.bucket_name else "service"
    chosen = {name for name in call.request.parameters if name.lower() in SIGNED_PARAMETERS} - PLAIN
    operation = ROUTES.get((call.request.method, on, *sorted(chosen)))
    if operation is None:
        raise Refusal("NotImplemented", f"{call.request.method} of a {on} with {sorted(chosen)}")
    return operation(call)


def list_buckets(call: Call) -> HttpResponse:
    """Lists the buckets."""
    return buckets_document(call.buckets.names(), call.prefix)


def create_bucket(call: Call) -> HttpResponse:
    """Creates the bucket; an existing one is not an error."""
    call.buckets.create(call.bucket_name)
    return HttpResponse(200, {"Location": f"/{call.bucket_name}"})


def head_bucket(call: Call) -> HttpResponse:
    """Checks that the bucket exists."""
    call.buckets.get(call.bucket_name)
    return HttpResponse(200)


def delete_bucket(call: Call) -> HttpResponse:
    """Deletes the bucket if it is empty."""
    call.buckets.delete(call.bucket_name)
    return HttpResponse(204)


def location(call: Call) -> HttpResponse:
    """The region of the bucket: this server has none."""
    call.buckets.get(call.bucket_name)
    return document("Location" if call.prefix == "x-obs-" else "LocationConstraint", call.prefix, "")


def list_objects(call: Call) -> HttpResponse:
    """Lists one page of the objects, by version 1 or 2 of the API."""
    version = call.parameter("list-type") or "1"
    token = unquote(call.parameter("continuation-token")) or call.parameter("start-after")
    asked = ListingQuery(
        call.bucket_name,
        call.parameter("prefix"),
        token if version == "2" else call.parameter("marker"),
        delimiter=call.parameter("delimiter"),
        limit=call.number("max-keys", MAX_KEYS, MAX_KEYS),
        encoded=call.is_url_encoded,
        version=version,
    )
    page, listed = call.bucket.page(asked.prefix, asked.marker, asked.delimiter, asked.limit)
    return objects_document(asked, page, listed, call.prefix)


def delete_objects(call: Call) -> HttpResponse:
    """Deletes the objects listed in the body."""
    root = call.document()
    encoded = texts(root, "EncodingType") == ["url"]
    keys: list[str] = texts(root, "Object/Key")
    if not keys or len(keys) > MAX_KEYS:
        raise Refusal("MalformedXML", f"expected 1 to {MAX_KEYS} objects")
    keys = [unquote_plus(key) for key in keys] if encoded else keys
    for key in keys:
        call.bucket.delete(key)
    listed = [] if texts(root, "Quiet") == ["true"] else [quote(key) if encoded else key for key in keys]
    deleted = "".join(f"<Deleted>{tags(Key=key)}</Deleted>" for key in listed)
    return document("DeleteResult", call.prefix, encoding(encoded) + deleted)


ROUTES: dict[tuple[str, ...], Callable[[Call], HttpResponse]] = {
    ("GET", "service"): list_buckets,
    ("PUT", "bucket"): create_bucket,
    ("HEAD", "bucket"): head_bucket,
    ("DELETE", "bucket"): delete_bucket,
    ("GET", "bucket"): list_objects,
    ("GET", "bucket", "location"): location,
    ("GET", "bucket", "uploads"): list_uploads,
    ("POST", "bucket", "delete"): delete_objects,
    ("PUT", "object"): put_object,
    ("GET", "object"): get_object,
    ("HEAD", "object"): get_object,
    ("DELETE", "object"): delete_object,
    ("POST", "object", "append"): append_object,
    ("POST", "object", "uploads"): begin_upload,
    ("POST", "object", "uploadId"): complete_upload,
    ("PUT", "object", "uploadId"): put_part,
    ("GET", "object", "uploadId"): list_parts,
    ("DELETE", "object", "uploadId"): abort_upload,
}
