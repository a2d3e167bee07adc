"""What an answer of OBS means: its status, and the marks of the content in its headers. Pure."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any, Mapping, Optional, Tuple

from path_mapping.errors import Expired, NotFound, Refused, Replaced, SlowDown, StoreError, Unreachable

LINE_CODES = {"BadDigest", "IncompleteBody", "RequestTimeout"}  # a 400, but for what the network did
EXPIRED_CODES = {"ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "TokenRefreshRequired"}
CRC64_HEADERS = ("x-obs-checksum-crc64ecma", "x-amz-checksum-crc64ecma", "x-obs-hash-crc64ecma")
_MD5 = re.compile(r"[0-9a-f]{32}")
LONGEST_WAIT = 60.0  # seconds that Retry-After may ask for


def error_of_status(
    doing: str, status: int, code: Optional[str], after: Optional[float] = None
) -> StoreError:
    """The error for an HTTP status; `code` is OBS' own word for it, which a HEAD does not have."""
    message = f"{doing}: HTTP {status}" + (f" {code}" if code else "")
    if status == 404:
        return NotFound(message)
    if status == 412:
        return Replaced(f"{message}: the object is another one than that which was listed")
    if status in (429, 503) or code == "SlowDown":
        return SlowDown(message, after)
    if status == 408 or status >= 500 or code in LINE_CODES:
        return Unreachable(message)
    return Expired(message) if code in EXPIRED_CODES else Refused(message)


def seconds_to_wait(header: str) -> Optional[float]:
    """What Retry-After asks for, if it is a number: at most a minute."""
    return min(float(header), LONGEST_WAIT) if header.isdigit() else None


def md5_of_etag(etag: Optional[str]) -> Optional[str]:
    """The MD5 in an ETag: that of a multipart upload (`...-3`) is none."""
    text = (etag or "").strip('"').lower()
    return text if _MD5.fullmatch(text) else None


def md5_of_content(headers: Mapping[bytes, bytes]) -> Optional[str]:
    """The MD5 that an answer gives of its object.

    Of an encrypted object the ETag only looks like an MD5 (OBS API reference, server-side encryption); of one
    that was appended to, nothing says that it is the MD5 of the whole.
    """
    for name, value in headers.items():
        if b"server-side-encryption" in name or (name.endswith(b"object-type") and value == b"Appendable"):
            return None
    return md5_of_etag(headers.get(b"etag", b"").decode("latin-1"))


def crc64_of_content(headers: Mapping[bytes, bytes]) -> Optional[int]:
    """The CRC-64 that an answer gives of its object, where the service has it."""
    for name in CRC64_HEADERS:
        text = headers.get(name.encode("ascii"))
        if text is not None and text.isdigit():
            return int(text)
    return None


def base64_of_md5(md5: str) -> str:
    """The hex digits of an MD5 as Content-MD5 wants them."""
    return base64.b64encode(bytes.fromhex(md5)).decode("ascii")


def compare(doing: str, answer: Any, md5: str) -> None:
    """Raises `Unreachable` when the ETag of an answer of the SDK is an MD5, and another one.

    Of an encrypted object it only looks like an MD5 (OBS API reference, server-side encryption); of one that
    was appended to, nothing says that it is the MD5 of the whole.
    """
    body = answer.body
    appended = any(name.endswith("object-type") and value == "Appendable" for name, value in answer.header)
    if body is None or body.sseKms or body.sseC or appended:
        return
    stored = md5_of_etag(body.etag)
    if stored is not None and stored != md5:
        raise Unreachable(f"{doing}: in OBS the MD5 is {stored}, here {md5}")


def etag_of_parts(etags: Tuple[str, ...]) -> str:
    """The ETag of an object in parts: the MD5 of their MD5s, and their number."""
    parts = [md5_of_etag(etag) for etag in etags]
    whole = b"".join(bytes.fromhex(part) for part in parts if part is not None)
    return f"{hashlib.md5(whole, usedforsecurity=False).hexdigest()}-{len(etags)}"
