"""Responses as values, and their XML. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from email.utils import formatdate
from http import HTTPStatus
from typing import BinaryIO
from urllib.parse import quote
from xml.sax.saxutils import escape

from ma_boot.desk.rehearsal.obs_server.buckets import BucketObject, ListingPage, Refusal
from ma_boot.desk.rehearsal.obs_server.uploads import Upload, UploadPart

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
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    file: BinaryIO | None = None
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
    return _xml(f"<Error>{tags(Code=code, Message=message, Resource=resource)}</Error>", status)


def buckets_document(names: Iterable[str], prefix: str) -> HttpResponse:
    """All buckets of the account."""
    listed = "".join(f"<Bucket>{tags(Name=name, CreationDate=_iso(0))}</Bucket>" for name in names)
    return document("ListAllMyBucketsResult", prefix, f"<Owner>{OWNER}</Owner><Buckets>{listed}</Buckets>")


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
    content = tags(Name=asked.bucket, Prefix=asked.key(asked.prefix))
    if second:
        content += tags(KeyCount=len(listed) + len(page.prefixes))
    else:
        content += tags(Marker=asked.key(asked.marker))
    if following:
        if second:
            content += tags(NextContinuationToken=quote(following))
        else:
            content += tags(NextMarker=asked.key(following))
    content += tags(MaxKeys=asked.limit)
    if asked.delimiter:
        content += tags(Delimiter=asked.key(asked.delimiter))
    content += encoding(asked.encoded) + tags(IsTruncated=_bool(bool(following)))
    content += "".join(_content(asked, stored) for stored in listed)
    for common in page.prefixes:
        content += f"<CommonPrefixes>{tags(Prefix=asked.key(common))}</CommonPrefixes>"
    return document("ListBucketResult", prefix, content)


def _content(asked: ListingQuery, stored: BucketObject) -> str:
    described = tags(Key=asked.key(stored.key), LastModified=_iso(stored.modified), ETag=f'"{stored.etag}"')
    owned = f"{tags(Size=stored.size)}<Owner>{OWNER}</Owner>{tags(StorageClass='STANDARD')}"
    return f"<Contents>{described}{owned}{tags(Type='Appendable') if stored.appendable else ''}</Contents>"


def copy_document(name: str, copy: BucketObject | UploadPart, prefix: str) -> HttpResponse:
    """A copy of an object or of a part."""
    return document(name, prefix, tags(LastModified=_iso(copy.modified), ETag=f'"{copy.etag}"'))


def parts_document(upload: Upload, after: int, limit: int, prefix: str) -> HttpResponse:
    """The parts of an upload with numbers greater than `after`."""
    rest = [upload.parts[number] for number in sorted(upload.parts) if number > after]
    shown = rest[:limit]
    page = tags(
        StorageClass="STANDARD",
        PartNumberMarker=after,
        NextPartNumberMarker=shown[-1].number if shown else after,
        MaxParts=limit,
        IsTruncated=_bool(len(rest) > limit),
    )
    for part in shown:
        described = tags(PartNumber=part.number, LastModified=_iso(part.modified), ETag=f'"{part.etag}"')
        page += f"<Part>{described}{tags(Size=part.size)}</Part>"
    named = tags(Bucket=upload.bucket, Key=upload.key, UploadId=upload.id)
    return document("ListPartsResult", prefix, named + _OWNERS + page)


def uploads_document(
    bucket: str, uploads: Sequence[Upload], limit: int, encoded: bool, prefix: str
) -> HttpResponse:
    """The first uploads in progress of a bucket."""

    def key(upload: Upload) -> str:
        return quote(upload.key) if encoded else upload.key

    content = tags(Bucket=bucket, MaxKeys=limit) + encoding(encoded)
    content += tags(IsTruncated=_bool(len(uploads) > limit))
    if len(uploads) > limit:
        last = uploads[limit - 1]
        content += tags(NextKeyMarker=key(last), NextUploadIdMarker=last.id)
    for upload in uploads[:limit]:
        content += (
            f"<Upload>{tags(Key=key(upload), UploadId=upload.id)}{_OWNERS}"
            f"{tags(StorageClass='STANDARD', Initiated=_iso(upload.initiated))}</Upload>"
        )
    return document("ListMultipartUploadsResult", prefix, content)


def _iso(seconds: float) -> str:
    """A time (seconds since the epoch) in ISO 8601."""
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def encoding(encoded: bool) -> str:
    """The element that says whether keys are percent-encoded."""
    return tags(EncodingType="url") if encoded else ""


def tags(**texts: object) -> str:
    """An element for each text; a parser would read a raw carriage return as a newline."""
    entities = {"\r": "&#13;", '"': "&quot;"}
    return "".join(f"<{name}>{escape(str(text), entities)}</{name}>" for name, text in texts.items())


def document(name: str, prefix: str, content: str) -> HttpResponse:
    """A document in the dialect of a prefix."""
    return _xml(f'<{name} xmlns="{NAMESPACES[prefix]}">{content}</{name}>')


def _xml(text: str, status: int = 200) -> HttpResponse:
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode("utf-8", "surrogatepass")
    return HttpResponse(status, {"Content-Type": "application/xml"}, body)
