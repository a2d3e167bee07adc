"""Responses as values, their XML, and what faults make of them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from email.utils import formatdate
from http import HTTPStatus
from typing import BinaryIO, Dict, Iterable, List, Optional, Sequence, Union
from urllib.parse import quote
from xml.sax.saxutils import escape

from ma_boot.rehearsal.obs_server.buckets import BucketObject, ListingPage, Refusal, Upload, UploadPart

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
    asked: ListingQuery, page: ListingPage, found: Sequence[BucketObject], prefix: str
) -> HttpResponse:
    """One page of a bucket's objects."""
    second, following = asked.version == "2", page.next_marker
    content = _tags(Name=asked.bucket, Prefix=asked.key(asked.prefix))
    if second:
        content += _tags(KeyCount=len(page.keys) + len(page.prefixes))
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
    content += "".join(_content(asked, stored) for stored in found)
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
    bucket: str, found: Sequence[Upload], limit: int, encoded: bool, prefix: str
) -> HttpResponse:
    """The first uploads in progress of a bucket."""

    def key(upload: Upload) -> str:
        return quote(upload.key) if encoded else upload.key

    content = _tags(Bucket=bucket, MaxKeys=limit) + _encoding(encoded)
    content += _tags(IsTruncated=_bool(len(found) > limit))
    if len(found) > limit:
        last = found[limit - 1]
        content += _tags(NextKeyMarker=key(last), NextUploadIdMarker=last.id)
    for upload in found[:limit]:
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


ERRORS = {
    "403": (403, "AccessDenied"),
    "404": (404, "NoSuchKey"),
    "408": (408, "RequestTimeout"),
    "429": (429, "TooManyRequests"),
    "500": (500, "InternalError"),
    "503": (503, "SlowDown"),
    "bad-digest": (400, "BadDigest"),
    "expired": (403, "ExpiredToken"),
}
IN_REQUEST = {"hang", "ignore-range", "reset", "reset-body", "short-write"}
IN_RESPONSE = {
    "appended",
    "empty",
    "encrypted",
    "flip",
    "no-is-truncated",
    "no-marker",
    "torn",
    "wrong-crc",
    "wrong-etag",
    "wrong-range",
}
MID_TRANSFER = {"cut", "drip", "reset-body", "stall", "trickle"}
OTHER_ETAG = {"wrong-etag", "encrypted", "appended"}
KINDS = {*ERRORS, *IN_REQUEST, *IN_RESPONSE, *MID_TRANSFER}
_ETAG = re.compile(rb"[0-9a-f]{32}(?=(-\d+)?(&quot;|\")?</ETag>)")


@dataclass
class ObsFault:
    """Breaks the next `times` requests of this method whose path or query, as sent, contains `path`.

    `kind` is a key of ERRORS (with `retry_after` seconds in the response), or one of:
    `hang` (no response; until the server's `release` is set), `reset` (RST instead of a response),
    `reset-body` (RST after half of the body of the request or response), `stall` (half of the response, then
    as `hang`), `cut` (half of the response, then FIN), `drip` (slow, until `release`), `trickle` (a few
    kilobytes per second);
    `short-write` (silently stores half of the body), `ignore-range` (200 and the whole object),
    `wrong-range` (Content-Range of another range), `flip` (one flipped bit), `wrong-crc`, `wrong-etag` (of
    another content, and no CRC-64 that would tell), `encrypted` and `appended` (the ETag is not an MD5, in
    listings too; the headers of a single object say why);
    `empty` (blanks with status 200), `torn` (half of a document, complete for HTTP), `no-marker` and
    `no-is-truncated` (a listing without this element).
    """

    kind: str
    method: str = "GET"
    path: str = ""
    times: int = 1_000_000
    retry_after: Optional[int] = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind: found {self.kind!r}, expected one of {sorted(KINDS)}")

    @property
    def is_mid_transfer(self) -> bool:
        """Whether it breaks the connection while the response is sent."""
        return self.kind in MID_TRANSFER

    def response(self, resource: str) -> Optional[HttpResponse]:
        """The error that the fault responds with; None for other kinds."""
        if self.kind not in ERRORS:
            return None
        status, code = ERRORS[self.kind]
        response = failed(status, code, "an injected fault", resource)
        if self.retry_after is not None:
            response.headers["Retry-After"] = str(self.retry_after)
        return response

    def damaged(self, response: HttpResponse, prefix: str) -> HttpResponse:
        """The response, which must have its body in memory, with the fault applied."""
        headers, body = dict(response.headers), response.body
        if self.kind == "flip" and body:
            body = bytes([body[0] ^ 1]) + body[1:]
        elif self.kind == "empty":
            body = b" " * len(body)
        elif self.kind == "torn":
            body = body[: len(body) // 2]
        elif self.kind == "no-marker":
            body = re.sub(rb"<NextMarker>.*?</NextMarker>", b"", body)
        elif self.kind == "no-is-truncated":
            body = re.sub(rb"<IsTruncated>.*?</IsTruncated>", b"", body)
        else:
            headers.update(_damaged_headers(headers, self.kind, prefix))
            if self.kind == "wrong-etag":
                headers.pop(f"{prefix}checksum-crc64ecma", None)
            if self.kind in OTHER_ETAG and headers.get("Content-Type") == "application/xml":
                body = _ETAG.sub(lambda found: found[0][::-1], body)
        return replace(response, headers=headers, body=body)


def take(faults: List[ObsFault], method: str, target: str) -> Optional[ObsFault]:
    """The first fault that applies to a request, with one use taken off."""
    for fault in faults:
        if fault.method == method and fault.path in target and fault.times > 0:
            fault.times -= 1
            return fault
    return None


def _damaged_headers(headers: Dict[str, str], kind: str, prefix: str) -> Dict[str, str]:
    """The headers that a fault changes, with their new values."""
    changed: Dict[str, str] = {}
    if kind in OTHER_ETAG and "ETag" in headers:
        changed["ETag"] = headers["ETag"][::-1]
        if kind == "encrypted":
            changed[f"{prefix}server-side-encryption"] = "kms" if prefix == "x-obs-" else "aws:kms"
        if kind == "appended":
            changed["x-obs-object-type"] = "Appendable"
    crc = f"{prefix}checksum-crc64ecma"
    if kind == "wrong-crc" and crc in headers:
        changed[crc] = str(int(headers[crc]) ^ 1)
    if kind == "wrong-range" and "Content-Range" in headers:
        first, last, size = map(int, re.findall(r"\d+", headers["Content-Range"]))
        changed["Content-Range"] = f"bytes {first + 1}-{last + 1}/{size}"
    return changed
