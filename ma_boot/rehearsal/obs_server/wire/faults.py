"""Faults of the server as values, and their effect on a response. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Dict, List, Optional

from ma_boot.rehearsal.obs_server.wire.responses import HttpResponse, failed

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
