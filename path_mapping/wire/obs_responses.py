"""What a response of OBS means: its status, and the checksums in its headers. Pure."""

from __future__ import annotations

import base64
import re
from email.utils import parsedate_to_datetime
from typing import Any, Iterable, Mapping, Optional, Tuple, Union

from path_mapping.errors import (
    Corrupted,
    Expired,
    NotFound,
    Refused,
    Rejected,
    Replaced,
    SlowDown,
    StoreError,
    Unreachable,
)
from path_mapping.localfs import crc64, md5_of, new_md5
from path_mapping.wire.found_object import ObjectState
from path_mapping.wire.part_sizes import count_of_parts, part_sizes_of

# Codes of the OBS API reference, "Error Codes".
NETWORK_CODES = {"IncompleteBody", "RequestTimeout"}  # status 400, but a fault of the network
EXPIRED_CODES = {"ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "TokenRefreshRequired"}
CRC64_HEADERS = ("x-obs-checksum-crc64ecma", "x-amz-checksum-crc64ecma", "x-obs-hash-crc64ecma")
_CRC64_NAMES = tuple(name.encode("ascii") for name in CRC64_HEADERS)
_MD5 = re.compile(r"[0-9a-f]{32}")
_NUMBER = re.compile(r"[0-9]{1,18}")  # `int` takes signs, blanks, `_` and the digits of all scripts, too
_CRC = re.compile(rb"[0-9]{1,20}")
CRC64, MD5 = "CRC-64", "MD5"  # kinds of checksums, as errors name them
MEANINGS = {  # of a status that is about the request, not about who sends it
    302: "redirected too often, or without a place: OBS_ENDPOINT must be that of the bucket's region",
    400: "the service takes the request for an invalid one",
    405: "the service does not permit this for anybody here",
    409: "it conflicts with the state of the bucket or object, or with another request",
    416: "the object is shorter than what was asked of it",
}
LONGEST_WAIT = 60.0  # seconds, whatever Retry-After asks for


def error_of_status(
    doing: str, status: int, code: Optional[str], after: Optional[float] = None
) -> StoreError:
    """The error for an HTTP status from 300 on.

    `code` is the error code of OBS, which the response to a HEAD does not have; `after` the seconds that
    Retry-After asks for.
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
    if status in (401, 403):
        return Refused(message)
    meaning = MEANINGS.get(status, MEANINGS[302] if status < 400 else "")
    return Rejected(f"{message}: {meaning}" if meaning else message)


def seconds_to_wait(header: str) -> Optional[float]:
    """The seconds in a Retry-After header, at most 60; None if it is not a number."""
    return min(float(header), LONGEST_WAIT) if _NUMBER.fullmatch(header) else None


def checked_size(doing: str, text: object) -> int:
    """A number in a response, such as a size in bytes. Raises `Corrupted` for any other text."""
    if not _NUMBER.fullmatch(str(text)):
        raise Corrupted(f"{doing}: the response is damaged: found {str(text)[:40]!r}, expected a number")
    return int(str(text))


def md5_of_etag(etag: Optional[str]) -> Optional[str]:
    """The MD5 in an ETag; None for that of a multipart upload (`...-3`), which is not one."""
    text = (etag or "").strip('"').lower()
    return text if len(text) == 32 and _MD5.fullmatch(text) else None


def md5_of_content(headers: Mapping[bytes, bytes]) -> Optional[str]:
    """The MD5 of the object, by the headers of a response; None if they do not tell.

    The ETag of an encrypted object only looks like an MD5 (OBS API reference, server-side encryption), and
    that of an appendable object need not be the MD5 of the whole.
    """
    return None if _etag_misleads(headers) else md5_of_etag(headers.get(b"etag", b"").decode("latin-1"))


def _etag_misleads(headers: Mapping[bytes, bytes]) -> bool:
    return any(
        b"server-side-encryption" in name or (name.endswith(b"object-type") and value == b"Appendable")
        for name, value in headers.items()
    )


def parts_of_content(headers: Mapping[bytes, bytes]) -> Optional[Tuple[str, int]]:
    """The ETag of a multipart object and the number of its parts; None for any other object."""
    etag = headers.get(b"etag", b"").decode("latin-1").strip('"').lower()
    count = 0 if _etag_misleads(headers) else count_of_parts(etag)
    return (etag, count) if count else None


def crc64_of_content(headers: Mapping[bytes, bytes]) -> Optional[int]:
    """The CRC-64 of the object, by the headers of a response; None if the service does not send it."""
    for name in _CRC64_NAMES:
        text = headers.get(name)
        if text is not None and _CRC.fullmatch(text):
            return int(text)
    return None


class ContentSum:
    """The checksum of some content, piece by piece: of the kind CRC64 or MD5, or nothing if it is empty."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._crc = 0
        self._digest = new_md5() if kind == MD5 else None

    def add(self, piece: Union[bytes, memoryview]) -> None:
        """Takes the next piece of the content."""
        if self.kind == CRC64:
            self._crc = crc64(piece, self._crc)
        elif self._digest is not None:
            self._digest.update(piece)

    def text(self) -> str:
        """The checksum of what was added, as OBS states it."""
        return str(self._crc) if self._digest is None else self._digest.hexdigest()


def summed(kind: str, pieces: Iterable[Union[bytes, memoryview]]) -> ContentSum:
    """The checksum of this kind of all pieces."""
    content = ContentSum(kind)
    for piece in pieces:
        content.add(piece)
    return content


class ContentCheck:
    """The checksum in a response: its `kind` is CRC64, else MD5, empty if the response has none."""

    def __init__(self, headers: Mapping[bytes, bytes]) -> None:
        crc = crc64_of_content(headers)
        stated = md5_of_content(headers) if crc is None else str(crc)
        self.kind = "" if stated is None else (MD5 if crc is None else CRC64)
        self._stated = stated

    def compare(self, doing: str, content: ContentSum) -> None:
        """Raises `Corrupted` if the content, summed by the same kind, is another one."""
        found = content.text()
        if self.kind and found != self._stated:
            raise Corrupted(f"{doing}: the {self.kind} in OBS is {self._stated}, here it is {found}")


def base64_of_md5(md5: str) -> str:
    """An MD5 in hex as the value of Content-MD5."""
    return base64.b64encode(bytes.fromhex(md5)).decode("ascii")


def compare(doing: str, answer: Any, md5: str) -> bool:
    """Checks the MD5 of the content against the ETag of the SDK's answer; False if it is not an MD5.

    See `md5_of_content`.

    Raises:
        Unreachable: they differ.
    """
    body = answer.body
    appended = any(name.endswith("object-type") and value == "Appendable" for name, value in answer.header)
    if body is None or body.sseKms or body.sseC or appended:
        return False
    stored = md5_of_etag(body.etag)
    if stored is not None and stored != md5:
        raise Corrupted(f"{doing}: the MD5 in OBS is {stored}, here it is {md5}")
    return stored is not None


def etag_of_parts(etags: Tuple[str, ...]) -> str:
    """The ETag of a multipart object: the MD5 of the MD5s of its parts, and their number."""
    parts = [md5_of_etag(etag) for etag in etags]
    whole = b"".join(bytes.fromhex(part) for part in parts if part is not None)
    return f"{md5_of([whole])}-{len(etags)}"


def object_state(doing: str, size: int, headers: Mapping[bytes, bytes]) -> ObjectState:
    """The state of an object of this size in bytes, by the headers of the response to a HEAD.

    Raises:
        Corrupted: its modification time is no date.
    """
    etag = headers.get(b"etag", b"").decode("latin-1")
    date = headers.get(b"last-modified", b"").decode("latin-1")
    try:
        modified = parsedate_to_datetime(date).timestamp() if date else 0.0
    except (ValueError, TypeError, OverflowError):  # TypeError before Python 3.10
        raise Corrupted(f"{doing}: the response is damaged: Last-Modified is {date[:40]!r}") from None
    state, crc64 = ObjectState(size, int(modified * 1e9), etag), crc64_of_content(headers)
    if crc64 is not None:
        return state._replace(crc64=crc64)
    if _etag_misleads(headers):
        return state
    return state._replace(md5=md5_of_etag(etag), part_sizes=part_sizes_of(etag, size))
