"""A loopback HTTP proxy that hurts: it stands before a real server and breaks the requests it is told to."""

from __future__ import annotations

import http.client
import re
import socket
import struct
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Dict, List, Tuple
from urllib.parse import urlsplit

STATUS = {"403": 403, "404": 404, "429": 429, "503": 503, "bad-digest": 400, "expired": 403}
CODE = {"bad-digest": b"BadDigest", "expired": b"ExpiredToken"}  # every other status says `Planted`
MARKED = {  # what is said of an object whose ETag is not the MD5 of its content
    "wrong-etag": {},
    "encrypted": {"x-amz-server-side-encryption": "aws:kms"},
    "appended": {"x-obs-object-type": "Appendable"},
}  # type: Dict[str, Dict[str, str]]
PIECE = 1 << 18
PAUSE = {"drip": (0.1, PIECE), "trickle": (0.05, 100)}  # seconds before so many bytes
_SIGNATURE = re.compile(r"(?<=[?&])(Expires|AWSAccessKeyId|Signature|x-amz-security-token)=[^&]*&?")
_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}


@dataclass
class Fault:
    """Breaks the next `times` requests of this method whose path has `part` in it.

    `kind`: a status of `STATUS`, `reset`, `cut` (half the body), `flip` (one byte), `hang`, `drip` (slowly, until
    it is released), `trickle` (so slowly that it would take for ever), `whole` (all of it, whatever the range), `empty` (no body under status 200), `no-marker` (a listing without NextMarker),
    `wrong-etag` (that of another content), `encrypted` and `appended` (the ETag only has the shape of an MD5, in
    listings too; a header says why where one object is meant).
    """

    kind: str
    method: str = "GET"
    part: str = ""
    times: int = 1_000_000


@dataclass
class FaultyProxy:
    """Serves on 127.0.0.1; `requests` has what came, without signatures, `release` ends what hangs."""

    upstream: str
    faults: List[Fault] = field(default_factory=list)
    requests: List[Tuple[str, str]] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> FaultyProxy:
        proxy = self

        class Request(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None:
                pass

            def serve(self) -> None:
                proxy.serve(self)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = serve

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Request)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Where it serves."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def serve(self, request: BaseHTTPRequestHandler) -> None:
        """Passes a request on, or breaks it."""
        length = int(request.headers.get("Content-Length") or 0)
        fault = self._fault(request.command, request.path)
        self.requests.append((request.command, _SIGNATURE.sub("", request.path).rstrip("?&")))
        if fault == "hang":
            self.release.wait()
            request.close_connection = True
            return
        if fault == "reset":
            linger = struct.pack("ii", 1, 0)  # close() then sends RST instead of FIN
            request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            request.close_connection = True
            request.connection.close()
            return
        body = request.rfile.read(length)
        if fault in STATUS:
            code = CODE.get(fault, b"Planted")
            self._answer(request, STATUS[fault], {}, b"<Error><Code>" + code + b"</Code></Error>")
            return
        if fault == "whole":
            del request.headers["Range"]
        status, headers, answer = self._ask(request, body)
        if fault in MARKED and "ETag" in headers:
            headers.update(MARKED[fault], ETag=headers["ETag"][::-1])
        try:
            pause = PAUSE.get(fault, (0.0, PIECE))
            self._answer(request, status, headers, _damaged(answer, fault), len(answer), *pause)
        except ConnectionError:
            request.close_connection = True  # whoever asked has gone

    def _fault(self, method: str, path: str) -> str:
        for fault in self.faults:
            if fault.method == method and fault.part in path and fault.times > 0:
                fault.times -= 1
                return fault.kind
        return ""

    def _ask(self, request: BaseHTTPRequestHandler, body: bytes) -> Tuple[int, Dict[str, str], bytes]:
        upstream = http.client.HTTPConnection(urlsplit(self.upstream).netloc)
        upstream.request(request.command, request.path, body, dict(request.headers.items()))
        response = upstream.getresponse()
        answer = response.read()
        headers = {name: value for name, value in response.getheaders() if name.lower() not in _HOP}
        if request.command == "HEAD":
            headers["Content-Length"] = response.getheader("Content-Length") or "0"
        upstream.close()
        return response.status, headers, answer

    def _answer(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        headers: Dict[str, str],
        body: bytes,
        promised: int = -1,
        pause: float = 0.0,
        piece: int = PIECE,
    ) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        if "Content-Length" not in headers:
            request.send_header("Content-Length", str(len(body) if promised < len(body) else promised))
        request.send_header("Connection", "close")
        request.end_headers()
        if request.command != "HEAD":
            for start in range(0, len(body), piece):
                self.release.wait(pause)
                request.wfile.write(body[start : start + piece])
        request.close_connection = True


def _damaged(body: bytes, fault: str) -> bytes:
    if fault == "cut":
        return body[: len(body) // 2]
    if fault == "flip" and body:
        return bytes([body[0] ^ 1]) + body[1:]
    if fault == "no-marker":
        start, end = body.find(b"<NextMarker>"), body.find(b"</NextMarker>")
        return body[:start] + b" " * (end + 13 - start) + body[end + 13 :] if start >= 0 else body
    if fault == "empty":
        return b" " * len(body)
    if fault in MARKED:
        return re.sub(rb"[0-9a-f]{32}(?=(&quot;|\")?</ETag>)", lambda found: found[0][::-1], body)
    return body
