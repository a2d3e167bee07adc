"""Faults on demand, as values, and what they do to an answer. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Dict, List, Optional

from ma_boot.rehearsal.obs_server.wire.answers import Answer, failed

REFUSING = {
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
IN_ANSWER = {
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
ON_THE_LINE = {"cut", "drip", "reset-body", "stall", "trickle"}
KINDS = {*REFUSING, *IN_REQUEST, *IN_ANSWER, *ON_THE_LINE}
_ETAG = re.compile(rb"[0-9a-f]{32}(?=(-\d+)?(&quot;|\")?</ETag>)")


@dataclass
class Fault:
    """Breaks the next `times` requests of this method whose path or query, as sent, has `path` in it.

    `kind`: a key of REFUSING (`retry_after` seconds are sent with it);
    `hang` (no answer until the server's `release` is set, and none then), `reset` (RST instead of an answer),
    `reset-body` (RST after half of the body, of the request or of the answer), `stall` (half of the answer,
    then as `hang`), `cut` (half of the answer, then the end), `drip` (slowly, until `release`),
    `trickle` (so slowly that it would never end);
    `short-write` (stores half of the body, and says nothing), `ignore-range` (200 and the whole object),
    `wrong-range` (Content-Range says another one), `flip` (one bit of the answer), `wrong-crc`, `wrong-etag`
    (of another content; without a CRC-64 that would say better), `encrypted` and `appended` (the ETag only
    has the shape of an MD5, in listings too; a header says why where one object is meant);
    `empty` (blanks under status 200), `torn` (half of a document, whole for HTTP), `no-marker` and
    `no-is-truncated` (a listing without this element).
    """

    kind: str
    method: str = "GET"
    path: str = ""
    times: int = 1_000_000
    retry_after: Optional[int] = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind: {self.kind!r} is none of {sorted(KINDS)}")


def take(faults: List[Fault], method: str, target: str) -> Optional[Fault]:
    """The first fault for a request that is not used up, used once more."""
    for fault in faults:
        if fault.method == method and fault.path in target and fault.times > 0:
            fault.times -= 1
            return fault
    return None


def refusal(fault: Fault, resource: str) -> Optional[Answer]:
    """The answer of a fault that refuses the request; None for the others."""
    if fault.kind not in REFUSING:
        return None
    status, code = REFUSING[fault.kind]
    answer = failed(status, code, "a fault that was ordered", resource)
    if fault.retry_after is not None:
        answer.headers["Retry-After"] = str(fault.retry_after)
    return answer


def damaged(answer: Answer, kind: str, prefix: str) -> Answer:
    """The answer, whose body is in memory, as the fault leaves it."""
    headers, body = dict(answer.headers), answer.body
    if kind == "flip" and body:
        body = bytes([body[0] ^ 1]) + body[1:]
    elif kind == "empty":
        body = b" " * len(body)
    elif kind == "torn":
        body = body[: len(body) // 2]
    elif kind == "no-marker":
        body = re.sub(rb"<NextMarker>.*?</NextMarker>", b"", body)
    elif kind == "no-is-truncated":
        body = re.sub(rb"<IsTruncated>.*?</IsTruncated>", b"", body)
    else:
        headers.update(_other_marks(headers, kind, prefix))
        if kind == "wrong-etag":
            headers.pop(f"{prefix}checksum-crc64ecma", None)
        if (
            kind in ("wrong-etag", "encrypted", "appended")
            and headers.get("Content-Type") == "application/xml"
        ):
            body = _ETAG.sub(lambda found: found[0][::-1], body)
    return replace(answer, headers=headers, body=body)


def _other_marks(headers: Dict[str, str], kind: str, prefix: str) -> Dict[str, str]:
    """The headers that a fault changes."""
    changed: Dict[str, str] = {}
    if kind in ("wrong-etag", "encrypted", "appended") and "ETag" in headers:
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
