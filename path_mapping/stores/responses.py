"""Reads responses of OBS: status, headers, and the XML of listings and uploads. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_plus

from path_mapping.errors import (
    Corrupted,
    Expired,
    Forbidden,
    NotFound,
    Refused,
    Rejected,
    Replaced,
    SlowDown,
    StoreError,
    Unreachable,
)
from path_mapping.stores.objects import Checksums, ObjectState, StoredObject, md5_of_etag

if TYPE_CHECKING:
    from xml.etree import ElementTree

# Codes of the OBS API reference, "Error Codes".
NETWORK_CODES = {"IncompleteBody", "RequestTimeout"}  # status 400, but a fault of the network
EXPIRED_CODES = {"ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "TokenRefreshRequired"}
# A refusal without a code is that of a HEAD, or of a service with another kind of documents.
FORBIDDEN_CODES = {None, "AccessDenied", "AccessForbidden"}
# Meanings of a status that is caused by the request, not by the credentials.
MEANINGS = {
    302: "redirected too often, or without a place: OBS_ENDPOINT must name the bucket's region",
    400: "the service takes the request for an invalid one",
    405: "the service does not permit this for anybody here",
    409: "it conflicts with the state of the bucket or object, or with another request",
    416: "the object is shorter than what was asked of it",
}
# Seconds; a longer Retry-After is cut to this.
LONGEST_WAIT = 60.0
_NUMBER = re.compile(r"[0-9]{1,18}")  # `int` takes signs, blanks, `_` and the digits of all scripts, too


def error_of_status(doing: str, status: int, code: str | None, after: float | None = None) -> StoreError:
    """Returns the error for an HTTP status from 300 on.

    `code` is the error code of OBS, which the response to a HEAD does not have; `after` are the seconds of
    Retry-After.
    """
    message = f"{doing}: HTTP {status}" + (f" {code}" if code else "")
    if status == 404 or code == "InvalidPart":  # a part that was never stored
        return NotFound(message)
    if code == "BadDigest":
        return Corrupted(message)
    if status == 412:
        return Replaced(f"{message}: the object was replaced after it was listed")
    if status in (429, 503) or code == "SlowDown":
        return SlowDown(message, after)
    if status == 408 or status >= 500 or code in NETWORK_CODES:
        return Unreachable(message)
    if code in EXPIRED_CODES:
        return Expired(message)
    if status == 403 and code in FORBIDDEN_CODES:
        return Forbidden(message)
    if status in (401, 403):
        return Refused(message)
    meaning = MEANINGS.get(status, MEANINGS[302] if status < 400 else "")
    return Rejected(f"{message}: {meaning}" if meaning else message)


def seconds_to_wait(header: str) -> float | None:
    """Returns the seconds in a Retry-After header, at most 60; None if it is not a number."""
    return min(float(header), LONGEST_WAIT) if _NUMBER.fullmatch(header) else None


def parse_size(doing: str, text: object) -> int:
    """Reads a number in a response, such as a size in bytes. Raises `Corrupted` for any other text."""
    if not _NUMBER.fullmatch(str(text)):
        raise Corrupted(f"{doing}: the response is damaged: found {str(text)[:40]!r}, expected a number")
    return int(str(text))


def object_state(doing: str, size: int | None, headers: Mapping[bytes, bytes]) -> ObjectState:
    """Reads the state of an object of this size in bytes from the headers of the response to a HEAD.

    Raises `Corrupted` if the size is missing, or the modification time is not a date.
    """
    if size is None:
        raise Corrupted(f"{doing}: the response is damaged, it has no Content-Length")
    from email.utils import parsedate_to_datetime  # slow to import

    date = headers.get(b"last-modified", b"").decode("latin-1")
    try:
        modified = parsedate_to_datetime(date).timestamp() if date else 0.0
    except (ValueError, TypeError, OverflowError):  # TypeError before Python 3.10
        raise Corrupted(f"{doing}: the response is damaged: Last-Modified is {date[:40]!r}") from None
    etag = headers.get(b"etag", b"").decode("latin-1")
    return ObjectState(size, int(modified * 1e9), etag, Checksums.stated(headers, size))


class ObjectPage(NamedTuple):
    """Objects and common prefixes of one page; `truncated`: there are more pages."""

    objects: list[StoredObject]
    prefixes: list[str]
    truncated: bool


def parse_page(doing: str, document: bytes) -> ObjectPage:
    """Reads a page of a listing (OBS API reference, "Listing Objects in a Bucket").

    Raises `Corrupted` if it is incomplete: not well-formed, or an object has no key or no size.
    """
    root = _root(doing, document)
    truncated = _text(doing, root, "IsTruncated").strip().lower() == "true"
    coded = root.findtext("EncodingType") == "url"

    def decoded(key: str) -> str:
        return unquote_plus(key) if coded and ("%" in key or "+" in key) else key

    objects = []
    for entry in root.iterfind("Contents"):
        texts = {child.tag: child.text or "" for child in entry}
        for name in ("Key", "Size"):
            if name not in texts:
                raise Corrupted(f"{doing}: the response is damaged, it has no {name}")
        etag = texts.get("ETag", "")
        md5 = None if texts.get("Type") == "Appendable" else md5_of_etag(etag)
        objects.append(StoredObject(decoded(texts["Key"]), parse_size(doing, texts["Size"]), md5, etag))
    prefixes = [decoded(_text(doing, entry, "Prefix")) for entry in root.iterfind("CommonPrefixes")]
    return ObjectPage(objects, prefixes, truncated)


def parse_upload(doing: str, document: bytes) -> str:
    """Reads the id of a new upload (OBS API reference, "Initiating a Multipart Upload").

    Raises `Corrupted` if the response is incomplete, or has no id.
    """
    return _text(doing, _root(doing, document), "UploadId")


def parse_parts(doing: str, document: bytes) -> tuple[list[tuple[int, int, str]], bool]:
    """Reads a page of the parts of an upload (OBS API reference, "Listing Uploaded Parts of an Object").

    Returns number, size in bytes and ETag of each, and True if there are more. Raises `Corrupted` if the page
    is incomplete.
    """
    root = _root(doing, document)
    parts = [
        (
            parse_size(doing, _text(doing, entry, "PartNumber")),
            parse_size(doing, _text(doing, entry, "Size")),
            entry.findtext("ETag") or "",
        )
        for entry in root.iterfind("Part")
    ]
    return parts, _text(doing, root, "IsTruncated").strip().lower() == "true"


def parse_completion(doing: str, document: bytes) -> str:
    """Reads the ETag of the object that a multipart upload has become, empty if the response has none.

    Raises `Corrupted` if it is incomplete: a response that begins with status 200 may end with an error.
    """
    root = _root(doing, document)
    if root.tag != "CompleteMultipartUploadResult":
        why = root.findtext("Code") or "no CompleteMultipartUploadResult"
        raise Corrupted(f"{doing}: the upload was not completed: the response has {why}")
    return root.findtext("ETag") or ""


def parts_document(etags: Sequence[str]) -> bytes:
    """Returns the body that completes an upload (OBS API reference, "Completing a Multipart Upload")."""
    from xml.etree import ElementTree  # slow to import

    root = ElementTree.Element("CompleteMultipartUpload")
    for number, etag in enumerate(etags, start=1):
        part = ElementTree.SubElement(root, "Part")
        ElementTree.SubElement(part, "PartNumber").text = str(number)
        ElementTree.SubElement(part, "ETag").text = etag
    return ElementTree.tostring(root)


def _root(doing: str, document: bytes) -> ElementTree.Element:
    """Parses a document, and removes the namespace from its names.

    A document type is refused: no response of OBS has one, and it could define entities that fill the memory.
    """
    from xml.etree import ElementTree  # slow to import

    try:
        text = document.decode("utf-8")
        if "<!DOCTYPE" in text:
            raise ValueError("it has a document type")
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise Corrupted(f"{doing}: the response is damaged: {error}") from None
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def _text(doing: str, element: ElementTree.Element, name: str) -> str:
    text = element.findtext(name)
    if not text:
        raise Corrupted(f"{doing}: the response is damaged, it has no {name}")
    return text
