"""Responses as values, and their XML. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from email.utils import formatdate
from http import HTTPStatus
from typing import BinaryIO, Dict, Iterable, Optional, Sequence, Union
from urllib.parse import quote
from xml.sax.saxutils import escape

from ma_boot.rehearsal.obs_server.storage import BucketObject, ListingPage, Refusal, Upload, UploadPart

NAMESPACES = {
    "x-obs-": "http://obs.myhwclouds.com/doc/2015-06-30/",
    "x-amz-": "http://s3.amazonaws.com/doc/2006-03-01/",
}
OWNER = "<ID>local</ID>"


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
    content = _tag("Code", code) + _tag("Message", message) + _tag("Resource", resource)
    return _xml(f"<Error>{content}</Error>", status=status)


def buckets(names: Iterable[str], prefix: str) -> HttpResponse:
    """All buckets of the account."""
    listed = "".join(
        f"<Bucket>{_tag('Name', name)}<CreationDate>{_iso(0)}</CreationDate></Bucket>" for name in names
    )
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


def objects(
    asked: ListingQuery, page: ListingPage, found: Sequence[BucketObject], prefix: str
) -> HttpResponse:
    """One page of a bucket's objects."""
    second = asked.version == "2"
    parts = [_tag("Name", asked.bucket), _tag("Prefix", asked.key(asked.prefix))]
    if not second:
        parts.append(_tag("Marker", asked.key(asked.marker)))
    else:
        parts.append(_tag("KeyCount", str(len(page.keys) + len(page.prefixes))))
    if page.next_marker:
        name, value = ("NextContinuationToken", quote(page.next_marker)) if second else ("NextMarker", "")
        parts.append(_tag(name, value or asked.key(page.next_marker)))
    parts.append(_tag("MaxKeys", str(asked.limit)))
    if asked.delimiter:
        parts.append(_tag("Delimiter", asked.key(asked.delimiter)))
    if asked.encoded:
        parts.append("<EncodingType>url</EncodingType>")
    parts.append(_tag("IsTruncated", "true" if page.next_marker else "false"))
    parts += [_content(asked, one) for one in found]
    parts += [
        f"<CommonPrefixes>{_tag('Prefix', asked.key(common))}</CommonPrefixes>" for common in page.prefixes
    ]
    return _document("ListBucketResult", prefix, "".join(parts))


def _content(asked: ListingQuery, one: BucketObject) -> str:
    kind = "<Type>Appendable</Type>" if one.appendable else ""
    return (
        f"<Contents><Key>{_text(asked.key(one.key))}</Key><LastModified>{_iso(one.modified)}</LastModified>"
        f"<ETag>&quot;{one.etag}&quot;</ETag><Size>{one.size}</Size><Owner>{OWNER}</Owner>"
        f"<StorageClass>STANDARD</StorageClass>{kind}</Contents>"
    )


def deleted(keys: Iterable[str], quiet: bool, encoded: bool, prefix: str) -> HttpResponse:
    """The keys that were deleted."""
    shown = () if quiet else keys
    listed = "".join(f"<Deleted>{_tag('Key', quote(key) if encoded else key)}</Deleted>" for key in shown)
    encoding = "<EncodingType>url</EncodingType>" if encoded else ""
    return _document("DeleteResult", prefix, encoding + listed)


def location(prefix: str) -> HttpResponse:
    """The region of a bucket: this server has none."""
    return _document("Location" if prefix == "x-obs-" else "LocationConstraint", prefix, "")


def copied(name: str, copy: Union[BucketObject, UploadPart], prefix: str) -> HttpResponse:
    """A copy of an object or of a part."""
    return _document(name, prefix, f"<LastModified>{_iso(copy.modified)}</LastModified>{_etag(copy.etag)}")


def initiated(upload: Upload, prefix: str) -> HttpResponse:
    """An initiated upload."""
    content = _tag("Bucket", upload.bucket) + _tag("Key", upload.key) + _tag("UploadId", upload.id)
    return _document("InitiateMultipartUploadResult", prefix, content)


def completed(upload: Upload, stored: BucketObject, prefix: str) -> HttpResponse:
    """A completed upload."""
    where = f"/{upload.bucket}/{quote(upload.key)}"
    content = _tag("Location", where) + _tag("Bucket", upload.bucket) + _tag("Key", upload.key)
    return _document("CompleteMultipartUploadResult", prefix, content + _etag(stored.etag))


def parts(upload: Upload, after: int, limit: int, prefix: str) -> HttpResponse:
    """The parts of an upload with numbers greater than `after`."""
    rest = [upload.parts[number] for number in sorted(upload.parts) if number > after]
    shown = rest[:limit]
    content = [_tag("Bucket", upload.bucket), _tag("Key", upload.key), _tag("UploadId", upload.id)]
    content.append(f"<Initiator>{OWNER}</Initiator><Owner>{OWNER}</Owner>")
    content.append(_tag("StorageClass", "STANDARD") + _tag("PartNumberMarker", str(after)))
    content.append(_tag("NextPartNumberMarker", str(shown[-1].number if shown else after)))
    content.append(_tag("MaxParts", str(limit)) + _tag("IsTruncated", _bool(len(rest) > limit)))
    content += [_part(part) for part in shown]
    return _document("ListPartsResult", prefix, "".join(content))


def _part(part: UploadPart) -> str:
    return (
        f"<Part><PartNumber>{part.number}</PartNumber><LastModified>{_iso(part.modified)}</LastModified>"
        f"{_etag(part.etag)}<Size>{part.size}</Size></Part>"
    )


def uploads(bucket: str, found: Sequence[Upload], limit: int, encoded: bool, prefix: str) -> HttpResponse:
    """The first uploads in progress of a bucket."""
    shown = found[:limit]
    content = [_tag("Bucket", bucket), _tag("MaxUploads", str(limit))]
    if encoded:
        content.append("<EncodingType>url</EncodingType>")
    content.append(_tag("IsTruncated", _bool(len(found) > limit)))
    if len(found) > limit:
        last = quote(shown[-1].key) if encoded else shown[-1].key
        content.append(_tag("NextKeyMarker", last) + _tag("NextUploadIdMarker", shown[-1].id))
    for upload in shown:
        key = quote(upload.key) if encoded else upload.key
        content.append(
            f"<Upload>{_tag('Key', key)}{_tag('UploadId', upload.id)}<Initiator>{OWNER}</Initiator>"
            f"<Owner>{OWNER}</Owner><StorageClass>STANDARD</StorageClass>"
            f"<Initiated>{_iso(upload.initiated)}</Initiated></Upload>"
        )
    return _document("ListMultipartUploadsResult", prefix, "".join(content))


def _iso(seconds: float) -> str:
    """A time (seconds since the epoch) in ISO 8601."""
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def _etag(etag: str) -> str:
    return f"<ETag>&quot;{etag}&quot;</ETag>"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _tag(name: str, text: str) -> str:
    return f"<{name}>{_text(text)}</{name}>"


def _text(text: str) -> str:
    return escape(text, {"\r": "&#13;"})  # a parser would read it as a newline


def _document(name: str, prefix: str, content: str) -> HttpResponse:
    return _xml(f'<{name} xmlns="{NAMESPACES[prefix]}">{content}</{name}>')


def _xml(text: str, status: int = 200) -> HttpResponse:
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode("utf-8", "surrogatepass")
    return HttpResponse(status, {"Content-Type": "application/xml"}, body)
