"""Answers as values, and the XML in them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import BinaryIO, Dict, Iterable, Optional, Sequence
from urllib.parse import quote
from xml.sax.saxutils import escape

from ma_boot.rehearsal.obs_server.storage.listing import Page
from ma_boot.rehearsal.obs_server.storage.objects import Part, Stored, Upload
from ma_boot.rehearsal.obs_server.storage.refusals import Refusal

NAMESPACES = {
    "x-obs-": "http://obs.myhwclouds.com/doc/2015-06-30/",
    "x-amz-": "http://s3.amazonaws.com/doc/2006-03-01/",
}
OWNER = "<ID>local</ID>"


@dataclass(frozen=True)
class Answer:
    """A status with headers, and either `body` or `length` bytes of a file from an offset on."""

    status: int
    headers: Dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    file: Optional[BinaryIO] = None
    offset: int = 0
    length: int = 0

    @property
    def size(self) -> int:
        """The bytes that follow the headers."""
        return self.length if self.file is not None else len(self.body)


def refused(refusal: Refusal, resource: str) -> Answer:
    """The answer to a request that is refused."""
    return failed(refusal.status, refusal.code, str(refusal), resource)


def failed(status: int, code: str, message: str, resource: str) -> Answer:
    """An error in OBS' words."""
    content = _tag("Code", code) + _tag("Message", message) + _tag("Resource", resource)
    return _xml(f"<Error>{content}</Error>", status=status)


def buckets(names: Iterable[str], prefix: str) -> Answer:
    """All buckets of the account."""
    listed = "".join(
        f"<Bucket>{_tag('Name', name)}<CreationDate>{iso(0)}</CreationDate></Bucket>" for name in names
    )
    return _document("ListAllMyBucketsResult", prefix, f"<Owner>{OWNER}</Owner><Buckets>{listed}</Buckets>")


@dataclass(frozen=True)
class Listing:
    """What a listing was asked for, which its answer repeats."""

    bucket: str
    prefix: str
    marker: str
    delimiter: str
    limit: int
    encoded: bool
    version: str = "1"

    def key(self, text: str) -> str:
        """A key as it stands in the answer."""
        return quote(text) if self.encoded else text


def objects(asked: Listing, page: Page, found: Sequence[Stored], prefix: str) -> Answer:
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


def _content(asked: Listing, one: Stored) -> str:
    kind = "<Type>Appendable</Type>" if one.appendable else ""
    return (
        f"<Contents><Key>{_text(asked.key(one.key))}</Key><LastModified>{iso(one.modified)}</LastModified>"
        f"<ETag>&quot;{one.etag}&quot;</ETag><Size>{one.size}</Size><Owner>{OWNER}</Owner>"
        f"<StorageClass>STANDARD</StorageClass>{kind}</Contents>"
    )


def deleted(keys: Iterable[str], quiet: bool, encoded: bool, prefix: str) -> Answer:
    """What a deletion of several objects did."""
    shown = () if quiet else keys
    listed = "".join(f"<Deleted>{_tag('Key', quote(key) if encoded else key)}</Deleted>" for key in shown)
    encoding = "<EncodingType>url</EncodingType>" if encoded else ""
    return _document("DeleteResult", prefix, encoding + listed)


def location(prefix: str) -> Answer:
    """Where a bucket is: of this server, nowhere."""
    return _document("Location" if prefix == "x-obs-" else "LocationConstraint", prefix, "")


def copied(stored: Stored, prefix: str) -> Answer:
    """A copy that was made."""
    content = f"<LastModified>{iso(stored.modified)}</LastModified>{_etag(stored.etag)}"
    return _document("CopyObjectResult", prefix, content)


def copied_part(part: Part, prefix: str) -> Answer:
    """A part that was copied."""
    content = f"<LastModified>{iso(part.modified)}</LastModified>{_etag(part.etag)}"
    return _document("CopyPartResult", prefix, content)


def begun(upload: Upload, prefix: str) -> Answer:
    """An upload that has begun."""
    content = _tag("Bucket", upload.bucket) + _tag("Key", upload.key) + _tag("UploadId", upload.id)
    return _document("InitiateMultipartUploadResult", prefix, content)


def completed(upload: Upload, stored: Stored, prefix: str) -> Answer:
    """An upload that has become an object."""
    where = f"/{upload.bucket}/{quote(upload.key)}"
    content = _tag("Location", where) + _tag("Bucket", upload.bucket) + _tag("Key", upload.key)
    return _document("CompleteMultipartUploadResult", prefix, content + _etag(stored.etag))


def parts(upload: Upload, after: int, limit: int, prefix: str) -> Answer:
    """The parts of an upload whose numbers are greater than `after`."""
    rest = [upload.parts[number] for number in sorted(upload.parts) if number > after]
    shown = rest[:limit]
    content = [_tag("Bucket", upload.bucket), _tag("Key", upload.key), _tag("UploadId", upload.id)]
    content.append(f"<Initiator>{OWNER}</Initiator><Owner>{OWNER}</Owner>")
    content.append(_tag("StorageClass", "STANDARD") + _tag("PartNumberMarker", str(after)))
    content.append(_tag("NextPartNumberMarker", str(shown[-1].number if shown else after)))
    content.append(_tag("MaxParts", str(limit)) + _tag("IsTruncated", _bool(len(rest) > limit)))
    content += [_part(part) for part in shown]
    return _document("ListPartsResult", prefix, "".join(content))


def _part(part: Part) -> str:
    return (
        f"<Part><PartNumber>{part.number}</PartNumber><LastModified>{iso(part.modified)}</LastModified>"
        f"{_etag(part.etag)}<Size>{part.size}</Size></Part>"
    )


def uploads(bucket: str, found: Sequence[Upload], limit: int, encoded: bool, prefix: str) -> Answer:
    """The first uploads of a bucket that are not complete yet."""
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
            f"<Initiated>{iso(upload.begun)}</Initiated></Upload>"
        )
    return _document("ListMultipartUploadsResult", prefix, "".join(content))


def iso(seconds: float) -> str:
    """A time as it stands in XML."""
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def _etag(etag: str) -> str:
    return f"<ETag>&quot;{etag}&quot;</ETag>"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _tag(name: str, text: str) -> str:
    return f"<{name}>{_text(text)}</{name}>"


def _text(text: str) -> str:
    return escape(text, {"\r": "&#13;"})  # which a parser would read as a newline


def _document(name: str, prefix: str, content: str) -> Answer:
    return _xml(f'<{name} xmlns="{NAMESPACES[prefix]}">{content}</{name}>')


def _xml(text: str, status: int = 200) -> Answer:
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode("utf-8", "surrogatepass")
    return Answer(status, {"Content-Type": "application/xml"}, body)
