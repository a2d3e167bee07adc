"""Faults that only tests inject: of any request that they describe, at any byte."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Callable
from urllib.parse import parse_qsl

from ma_boot.desk.rehearsal.obs_server.faults import KINDS, ObsFault, PendingRequest, RequestFault
from ma_boot.desk.rehearsal.obs_server.request import Body, HttpRequest
from ma_boot.desk.rehearsal.obs_server.responses import HttpResponse, failed

LONGEST_STALL = 300.0
DRIP_SECONDS, DRIP_BYTES = 0.1, 1 << 18
HALF = -1
_LISTED_ETAG = re.compile(rb"[0-9a-f]{32}(?=(-\d+)?(&quot;|\")?</ETag>)")
_SIGNING = re.compile(
    r"(?:^|(?<=&))(Expires|AWSAccessKeyId|AccessKeyId|Signature|x-(amz|obs)-security-token)=[^&]*(&|$)"
)
_BY_METHOD = {
    "bucket": {"GET": "ListObjects", "HEAD": "HeadBucket", "PUT": "CreateBucket", "DELETE": "DeleteBucket"},
    "object": {"GET": "GetObject", "HEAD": "HeadObject", "PUT": "PutObject", "DELETE": "DeleteObject"},
    "upload": {
        "PUT": "UploadPart",
        "GET": "ListParts",
        "POST": "CompleteMultipartUpload",
        "DELETE": "AbortMultipartUpload",
    },
    "uploads": {"POST": "CreateMultipartUpload", "GET": "ListMultipartUploads"},
}


@dataclass(frozen=True, eq=False)
class Seen(HttpRequest):
    """One request as it arrived; `number` counts from 1."""

    number: int

    @property
    def query(self) -> dict[str, str]:
        """The parameters, decoded; also those that have no value, such as `uploads`."""
        return dict(parse_qsl(self.target.partition("?")[2], keep_blank_values=True))

    @property
    def unsigned(self) -> tuple[str, str]:
        """The method, and the target without its signature."""
        path, _, query = self.target.partition("?")
        query = _SIGNING.sub("", query).rstrip("&")
        return self.method, f"{path}?{query}" if query else path

    @property
    def access_key(self) -> str:
        """The access key of its signature, in the URL or in the header of S3 or OBS."""
        signed = self.headers.get("authorization", "").partition(" ")[2].partition(":")[0]
        return self.query.get("AWSAccessKeyId") or self.query.get("AccessKeyId") or signed

    @property
    def operation(self) -> str:
        """The operation of the request, by the names of S3: `PutObject`, `UploadPart`, `ListObjects`, ..."""
        if "apiversion" in self.query:
            return "ApiVersion"
        if "delete" in self.query:
            return "DeleteObjects"
        on = "object" if self.path.strip("/").count("/") else "bucket"
        on = "upload" if "uploadId" in self.query else "uploads" if "uploads" in self.query else on
        if self.method == "PUT" and on == "object" and any("-copy-source" in name for name in self.headers):
            return "CopyObject"
        return _BY_METHOD[on].get(self.method, self.method)


def operation(*names: str) -> Callable[[Seen], bool]:
    """Picks requests by their operations."""
    return lambda seen: seen.operation in names


@dataclass
class Fault:
    """A fault of the requests that `when` picks, at most `times` of them.

    `before` runs first, in the server's thread. `status`, `reset` and `stall` then keep the request from the
    service, unless `forwarded` is set. `early` answers before the body was read, `cut_request` resets the
    connection in its middle. `flip_request` and `flip_answer` are the offsets of bytes of a body that are changed,
    `unasked` names headers that the request loses, `without` those that the answer loses, `with_headers` has those
    that it gets, and `change` makes another answer of it. `cut_answer` is the number of bytes of the answer's body,
    or HALF, that come through before the connection ends, or, with `reset` or `stall`, before it is reset or
    stalls. With `drip` they come slowly.
    """

    when: Callable[[Seen], bool] = lambda seen: True
    times: int = 1
    before: Callable[[Seen], None] | None = None
    status: int = 0
    code: str = "InternalError"
    body: bytes | None = None
    forwarded: bool = False
    early: bool = False
    flip_request: int | None = None
    flip_answer: int | None = None
    cut_request: bool = False
    cut_answer: int | None = None
    reset: bool = False
    stall: bool = False
    drip: bool = False
    unasked: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    with_headers: dict[str, str] = field(default_factory=dict)
    change: Callable[[HttpResponse], HttpResponse] | None = None

    def breaks(self, request: HttpRequest) -> bool:
        assert isinstance(request, Seen)
        return self.when(request)

    def serve(self, pending: PendingRequest) -> bool:
        assert isinstance(pending.request, Seen)
        if self.before is not None:
            self.before(pending.request)
        if self.early:
            answer = self._answer(pending)
            pending.connection.send(answer.head(pending.number, keep=False) + answer.body)
            return False
        if self.cut_request and not pending.body.is_read:
            return _reset_in_the_body(pending)
        ends = self.reset or self.stall or self.status > 0
        if ends and self.cut_answer is None and not self.forwarded:
            return self._end(pending)
        if self.flip_request is not None:
            pending = replace(pending, body=_FlippedBody(pending.body, self.flip_request))
        response = self._changed(pending)
        if ends and self.cut_answer is None:
            if response.file is not None:
                response.file.close()
            return self._end(pending)
        if self.cut_answer is None:
            return self._drip(pending, response) if self.drip else pending.send(response)
        pending.send_part(response, len(response.body) // 2 if self.cut_answer == HALF else self.cut_answer)
        return self._end(pending)

    def _answer(self, pending: PendingRequest) -> HttpResponse:
        """The fault's own answer."""
        answer = failed(self.status, self.code, "an injected fault", pending.request.path)
        answer.headers.update(self.with_headers)
        return answer if self.body is None else replace(answer, body=self.body)

    def _end(self, pending: PendingRequest) -> bool:
        """Ends the connection as the fault wants it."""
        if self.stall:
            pending.release.wait(LONGEST_STALL)
        if self.reset:
            pending.connection.reset()
        elif self.status:
            return pending.send(self._answer(pending))
        return False

    def _changed(self, pending: PendingRequest) -> HttpResponse:
        """The proper response, with the fault applied."""
        request = pending.request
        kept = {name: value for name, value in request.headers.items() if name not in self.unasked}
        response = pending.respond(replace(request, headers=kept), pending.body)
        response = response if request.method == "HEAD" else response.loaded()
        response = response if self.change is None else self.change(response)
        headers = {name: text for name, text in response.headers.items() if name.lower() not in self.without}
        body = response.body
        if self.flip_answer is not None:
            body = flipped(body, self.flip_answer)
        return replace(response, headers={**headers, **self.with_headers}, body=body)

    def _drip(self, pending: PendingRequest, response: HttpResponse) -> bool:
        pending.send_part(response, 0)
        for start in range(0, len(response.body), DRIP_BYTES):
            pending.release.wait(DRIP_SECONDS)
            pending.connection.send(response.body[start : start + DRIP_BYTES])
        return False


def _reset_in_the_body(pending: PendingRequest) -> bool:
    received = 0
    for piece in pending.body.pieces():
        received += len(piece)
        if received * 2 >= pending.body.length:
            break
    pending.connection.reset()
    return False


def flipped(content: bytes, offset: int) -> bytes:
    """The content with another byte at this offset, if it has one there."""
    return content[:offset] + bytes(byte ^ 1 for byte in content[offset : offset + 1]) + content[offset + 1 :]


class _FlippedBody(Body):
    """A request's body that is another one at this offset."""

    def __init__(self, body: Body, offset: int) -> None:
        self.__dict__ = body.__dict__  # what one has read, the other one has, too
        self._offset = offset

    def pieces(self) -> Iterator[bytes]:
        received = 0
        for piece in super().pieces():
            at = self._offset - received
            yield flipped(piece, at) if at >= 0 else piece
            received += len(piece)


def _other_etag(response: HttpResponse, **more: str) -> HttpResponse:
    """The response with another ETag, of an object or of all objects in a listing."""
    headers = {**response.headers, **{name.replace("_", "-"): text for name, text in more.items()}}
    if "ETag" in headers:
        headers["ETag"] = headers["ETag"][::-1]
    body = _LISTED_ETAG.sub(lambda etag: etag[0][::-1], response.body)
    return replace(response, headers=headers, body=body)


def _wrong_etag(response: HttpResponse) -> HttpResponse:
    """With the ETag of another content, and no CRC-64 that would tell."""
    headers = {name: text for name, text in response.headers.items() if "crc64" not in name}
    return _other_etag(replace(response, headers=headers))


def _wrong_crc(response: HttpResponse) -> HttpResponse:
    headers = {n: str(int(text) ^ 1) if "crc64" in n else text for n, text in response.headers.items()}
    return replace(response, headers=headers)


def _without_marker(response: HttpResponse) -> HttpResponse:
    return replace(response, body=re.sub(rb"<NextMarker>.*?</NextMarker>", b"", response.body))


_SETTINGS: dict[str, dict[str, Any]] = {
    "403": {"status": 403, "code": "AccessDenied"},
    "404": {"status": 404, "code": "NoSuchKey"},
    "500": {"status": 500},
    "reset": {"reset": True},
    "cut": {"cut_answer": HALF},
    "stall": {"cut_answer": HALF, "stall": True},
    "flip": {"flip_answer": 0},
    "429": {"status": 429, "code": "TooManyRequests"},
    "bad-digest": {"status": 400, "code": "BadDigest"},
    "reset-body": {"cut_request": True, "cut_answer": HALF, "reset": True},
    "drip": {"drip": True},
    "ignore-range": {"unasked": ("range",)},
    "wrong-crc": {"change": _wrong_crc},
    "wrong-etag": {"change": _wrong_etag},
    "encrypted": {"change": partial(_other_etag, x_obs_server_side_encryption="kms")},
    "appended": {"change": partial(_other_etag, x_obs_object_type="Appendable")},
    "empty": {"change": lambda response: replace(response, body=b" " * len(response.body))},
    "no-marker": {"change": _without_marker},
}


def obs_fault(kind: str, method: str = "GET", path: str = "", times: int = 1_000_000) -> RequestFault:
    """Returns a fault by its name: a fault of the rehearsal, or one that only tests inject."""
    if kind in KINDS:
        return ObsFault(kind, method, path, times)
    return Fault(lambda seen: seen.method == method and path in seen.target, times, **_SETTINGS[kind])
