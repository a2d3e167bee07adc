"""Responses as values, and their XML. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from email.utils import formatdate
from http import HTTPStatus
from typing import BinaryIO, Dict, Iterable, Optional, Sequence, Union
from urllib.parse import quote
from xml.sax.saxutils import escape

from ma_boot.rehearsal.obs_server.buckets import BucketObject, ListingPage, Refusal
from ma_boot.rehearsal.obs_server.uploads import Upload, UploadPart

NAMESPACES = {
    "x-obs-": "http://obs.myhwclouds.com/doc/2015-06-30/",
    "x-amz-": "http://s3.amazonaws.com/doc/2006-03-01/",
}
OWNER = "<ID>local</ID>"
_OWNERS = f"<Initiator>{OWNER}</Initiator><Owner>{OWNER}</Owner>"


@dataclass(frozen=True)
class HttpResponse:
    """A status, headers, and either `body` or `length` bytes of a file from an offset on."""

    status: int
    headers: Dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    file: Optional[BinaryIO] = None
    offset: int = 0
    length: int = 0

    @property
    def size(self) -> int:
        """The size of the body in bytes."""
        return self.length if self.file is not None else len(self.body)

    def loaded(self) -> HttpResponse:
        """The response, with its body in memory."""
        if self.file is None:
            return self
        with self.file as file:
            file.seek(self.offset)
            return replace(self, body=file.read(self.length), file=None, offset=0, length=0)

    def head(self, number: int, keep: bool) -> bytes:
        """The status line and the headers, with the number of the request."""
        ends = "keep-alive" if keep else "close"
        lines = [
            f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}",
            *(f"{name}: {value}" for name, value in self.headers.items()),
            f"x-obs-request-id: {number:016X}",
            f"x-amz-request-id: {number:016X}",
            f"Date: {formatdate(usegmt=True)}",
            *([] if self.status in (204, 304) else [f"Content-Length: {self.size}"]),
            f"Connection: {ends}\r\n\r\n",
        ]
        return "\r\n".join(lines).encode("latin-1", "replace")


def refused(refusal: Refusal, resource: str) -> HttpResponse:
    """The response to a request that failed."""
    return failed(refusal.status, refusal.code, str(refusal), resource)


def failed(status: int, code: str, message: str, resource: str) -> HttpResponse:
    """An error document of OBS."""
    return _xml(f"<Error>{_tags(Code=code, Message=message, Resource=resource)}</Error>", status)


def buckets_document(names: Iterable[str], prefix: str) -> HttpResponse:
    """All buckets of the account."""
    listed = "".join(f"<Bucket>{_tags(Name=name, CreationDate=_iso(0))}</Bucket>" for name in names)
    return _document("ListAllMyBucketsResult", prefix, f"<Owner>{OWNER}</Owner><Buckets>{listed}</Buckets>")


@dataclass(frozen=True)
class ListingQuery:
    """The parameters of a listing, which its response repeats."""

    bucket: str
    prefix: str
    marker: str
    delimiter: str
    limit: int
    encoded: bool
    version: str = "1"

    def key(self, text: str) -> str:
        """A key as it is written in the response."""
        return quote(text) if self.encoded else text


def objects_document(
    asked: ListingQuery, page: ListingPage, listed: Sequence[BucketObject], prefix: str
) -> HttpResponse:
    """One page of a bucket's objects."""
    second, following = asked.version == "2", page.next_marker
    content = _tags(Name=asked.bucket, Prefix=asked.key(asked.prefix))
    if second:
        content += _tags(KeyCount=len(listed) + len(page.prefixes))
    else:
        content += _tags(Marker=asked.key(asked.marker))
    if following:
        if second:
            content += _tags(NextContinuationToken=quote(following))
        else:
            content += _tags(NextMarker=asked.key(following))
    content += _tags(MaxKeys=asked.limit)
    if asked.delimiter:
        content += _tags(Delimiter=asked.key(asked.delimiter))
    content += _encoding(asked.encoded) + _tags(IsTruncated=_bool(bool(following)))
    content += "".join(_content(asked, stored) for stored in listed)
    for common in page.prefixes:
        content += f"<CommonPrefixes>{_tags(Prefix=asked.key(common))}</CommonPrefixes>"
    return _document("ListBucketResult", prefix, content)


def _content(asked: ListingQuery, stored: BucketObject) -> str:
    described = _tags(Key=asked.key(stored.key), LastModified=_iso(stored.modified), ETag=f'"{stored.etag}"')
    owned = f"{_tags(Size=stored.size)}<Owner>{OWNER}</Owner>{_tags(StorageClass='STANDARD')}"
    return f"<Contents>{described}{owned}{_tags(Type='Appendable') if stored.appendable else ''}</Contents>"


def deletion_document(keys: Iterable[str], quiet: bool, encoded: bool, prefix: str) -> HttpResponse:
    """The keys that were deleted."""
    listed = [quote(key) if encoded else key for key in keys if not quiet]
    deleted = "".join(f"<Deleted>{_tags(Key=key)}</Deleted>" for key in listed)
    return _document("DeleteResult", prefix, _encoding(encoded) + deleted)


def location_document(prefix: str) -> HttpResponse:
    """The region of a bucket: this server has none."""
    return _document("Location" if prefix == "x-obs-" else "LocationConstraint", prefix, "")


def copy_document(name: str, copy: Union[BucketObject, UploadPart], prefix: str) -> HttpResponse:
    """A copy of an object or of a part."""
    return _document(name, prefix, _tags(LastModified=_iso(copy.modified), ETag=f'"{copy.etag}"'))


def upload_document(upload: Upload, prefix: str) -> HttpResponse:
    """An initiated upload."""
    return _document("InitiateMultipartUploadResult", prefix, _named(upload))


def completion_document(upload: Upload, stored: BucketObject, prefix: str) -> HttpResponse:
    """A completed upload."""
    content = _tags(
        Location=f"/{upload.bucket}/{quote(upload.key)}",
        Bucket=upload.bucket,
        Key=upload.key,
        ETag=f'"{stored.etag}"',
    )
    return _document("CompleteMultipartUploadResult", prefix, content)


def parts_document(upload: Upload, after: int, limit: int, prefix: str) -> HttpResponse:
    """The parts of an upload with numbers greater than `after`."""
    rest = [upload.parts[number] for number in sorted(upload.parts) if number > after]
    shown = rest[:limit]
    page = _tags(
        StorageClass="STANDARD",
        PartNumberMarker=after,
        NextPartNumberMarker=shown[-1].number if shown else after,
        MaxParts=limit,
        IsTruncated=_bool(len(rest) > limit),
    )
    parts = "".join(f"<Part>{_described(part)}</Part>" for part in shown)
    return _document("ListPartsResult", prefix, _named(upload) + _OWNERS + page + parts)


def _named(upload: Upload) -> str:
    return _tags(Bucket=upload.bucket, Key=upload.key, UploadId=upload.id)


def _described(part: UploadPart) -> str:
    return _tags(
        PartNumber=part.number, LastModified=_iso(part.modified), ETag=f'"{part.etag}"', Size=part.size
    )


def uploads_document(
    bucket: str, uploads: Sequence[Upload], limit: int, encoded: bool, prefix: str
) -> HttpResponse:
    """The first uploads in progress of a bucket."""

    def key(upload: Upload) -> str:
        return quote(upload.key) if encoded else upload.key

    content = _tags(Bucket=bucket, MaxKeys=limit) + _encoding(encoded)
    content += _tags(IsTruncated=_bool(len(uploads) > limit))
    if len(uploads) > limit:
        last = uploads[limit - 1]
        content += _tags(NextKeyMarker=key(last), NextUploadIdMarker=last.id)
    for upload in uploads[:limit]:
        content += (
            f"<Upload>{_tags(Key=key(upload), UploadId=upload.id)}{_OWNERS}"
            f"{_tags(StorageClass='STANDARD', Initiated=_iso(upload.initiated))}</Upload>"
        )
    return _document("ListMultipartUploadsResult", prefix, content)


def _iso(seconds: float) -> str:
    """A time (seconds since the epoch) in ISO 8601."""
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _encoding(encoded: bool) -> str:
    return _tags(EncodingType="url") if encoded else ""


def _tags(**texts: object) -> str:
    """An element for each text; a parser would read a raw carriage return as a newline."""
    entities = {"\r": "&#13;", '"': "&quot;"}
    return "".join(f"<{name}>{escape(str(text), entities)}</{name}>" for name, text in texts.items())


def _document(name: str, prefix: str, content: str) -> HttpResponse:
    return _xml(f'<{name} xmlns="{NAMESPACES[prefix]}">{content}</{name}>')


def _xml(text: str, status: int = 200) -> HttpResponse:
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode("utf-8", "surrogatepass")
    return HttpResponse(status, {"Content-Type": "application/xml"}, body)
