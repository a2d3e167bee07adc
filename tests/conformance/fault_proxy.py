"""An HTTP proxy in front of any S3-compatible server that injects faults: no server breaks requests on demand."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
from dataclasses import dataclass, field
from typing import BinaryIO, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple
from urllib.parse import parse_qsl, unquote, urlsplit

LONGEST_STALL = 300.0
_ETAG = re.compile(rb'(?i)(\betag(?:: |>)(?:"|&quot;|&#34;)?)([0-9a-f]{32})')
_ENCRYPTED = "x-amz-server-side-encryption: aws:kms"


class Seen(NamedTuple):
    """One request as it arrived; `number` counts from 1, `query` has the names of sub-resources such as `uploads`."""

    number: int
    method: str
    path: str
    query: Dict[str, str]
    headers: Dict[str, str]

    @property
    def access_key(self) -> str:
        """Whose signature it has, by the URL or by the header of the signatures of S3 and of OBS."""
        signed = self.headers.get("authorization", "").partition(" ")[2].partition(":")[0]
        return self.query.get("AWSAccessKeyId") or self.query.get("AccessKeyId") or signed

    @property
    def operation(self) -> str:
        """What it asks for, by the names of S3: `PutObject`, `UploadPart`, `ListObjects`, ..."""
        bucket_only = self.path.strip("/").count("/") == 0
        if "uploadId" in self.query:
            by_method = {
                "PUT": "UploadPart",
                "POST": "CompleteMultipartUpload",
                "DELETE": "AbortMultipartUpload",
            }
            return by_method.get(self.method, "ListParts")
        if "uploads" in self.query:
            return "CreateMultipartUpload" if self.method == "POST" else "ListMultipartUploads"
        if "apiversion" in self.query:
            return "ApiVersion"
        if "delete" in self.query:
            return "DeleteObjects"
        copies = any(name.endswith("-copy-source") for name in self.headers)
        if self.method == "PUT" and copies:
            return "CopyObject"
        names = {"GET": "ListObjects", "HEAD": "HeadBucket", "PUT": "CreateBucket", "DELETE": "DeleteBucket"}
        objects = {"GET": "GetObject", "HEAD": "HeadObject", "PUT": "PutObject", "DELETE": "DeleteObject"}
        return (names if bucket_only else objects).get(self.method, self.method)


@dataclass
class Fault:
    """What happens to the requests that `when` picks, at most `times` of them.

    `before` runs first, in the proxy's thread. `status`, `reset` and `stall` then keep the request from the server,
    unless `forwarded` is set. `early` answers before the body was read. `flip_request` and `flip_answer` are the
    offsets of bytes of a body that are changed, `without` names headers that the answer loses, `with_headers` has
    those that it gets. `cut_answer` is the
    number of bytes of the answer's body that come through before the connection ends, or, with `reset` or `stall`,
    before it is reset or stalls.
    """

    when: Callable[[Seen], bool]
    times: int = 1
    before: Optional[Callable[[Seen], None]] = None
    status: int = 0
    code: str = "InternalError"
    body: Optional[bytes] = None
    forwarded: bool = False
    early: bool = False
    flip_request: Optional[int] = None
    flip_answer: Optional[int] = None
    cut_answer: Optional[int] = None
    reset: bool = False
    stall: bool = False
    without: Tuple[str, ...] = ()
    with_headers: Dict[str, str] = field(default_factory=dict)

    @property
    def reaches_server(self) -> bool:
        return self.forwarded or self.cut_answer is not None or not (self.status or self.reset or self.stall)

    def answer(self, method: str = "") -> bytes:
        """The proxy's own answer; to a HEAD it has no body."""
        error = f"<?xml version='1.0'?><Error><Code>{self.code}</Code><Message>by the proxy</Message></Error>"
        body = self.body if self.body is not None else error.encode()
        head = f"HTTP/1.1 {self.status} By The Proxy\r\nContent-Length: {len(body)}\r\nContent-Type: application/xml\r\n"
        more = "".join(f"{name}: {value}\r\n" for name, value in self.with_headers.items())
        return f"{head}{more}Connection: close\r\n\r\n".encode() + (b"" if method == "HEAD" else body)


def operation(*names: str) -> Callable[[Seen], bool]:
    """Picks requests by their operations."""
    return lambda seen: seen.operation in names


def mirrored(etags: bytes) -> bytes:
    """The same text with its ETags backwards, which are no MD5s then, and forwards again the next time."""
    return _ETAG.sub(lambda found: found[1] + found[2][::-1], etags)


class FaultProxy:
    """Serves at `url` while its context is entered; `seen` has every request, the first fault that fits is taken.

    With `encrypted` all objects look as in a bucket with SSE-KMS: each has an ETag of its own that is no MD5.
    """

    def __init__(self, target: str, host: str = "127.0.0.1", encrypted: bool = False) -> None:
        self._encrypted = encrypted
        self.faults: List[Fault] = []
        self.seen: List[Seen] = []
        self._target = (urlsplit(target).hostname, urlsplit(target).port)
        self._lock = threading.Lock()
        self._ended = threading.Event()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family, backlog=100)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._listener.getsockname()[1]}"

    def __enter__(self) -> FaultProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def count(self, *names: str) -> int:
        """How many requests of these operations arrived."""
        with self._lock:
            return sum(seen.operation in names for seen in self.seen)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError), client, socket.create_connection(self._target) as server:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with client.makefile("rb") as asked, server.makefile("rb") as answered:
                while self._exchange(_Side(client, asked), _Side(server, answered)):
                    pass

    def _exchange(self, client: _Side, server: _Side) -> bool:
        """Forwards one request and its answer, or breaks them; False when the connection is over."""
        head = client.head()
        if head is None:
            return False
        seen, fault = self._received(head)
        if fault is None:
            fault = Fault(operation())
        if fault.before is not None:
            fault.before(seen)
        if fault.early:
            client.send(fault.answer(seen.method))
            return False
        if not fault.reaches_server:
            if fault.status:
                client.skip(head)
            return self._break(client, fault, seen.method)
        server.send(_joined(head))
        if seen.headers.get("expect", "").lower() == "100-continue":
            client.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        client.body_to(
            server, head, fault.flip_request, change=self._mirror if seen.method == "POST" else None
        )
        return self._answer(client, server, seen, fault)

    def _answer(self, client: _Side, server: _Side, seen: Seen, fault: Fault) -> bool:
        answer = server.head()
        while answer is not None and answer[0].split()[1] == b"100":
            answer = server.head()
        if answer is None:
            return False
        if fault.cut_answer is None and (fault.reset or fault.stall or fault.status):
            server.skip(answer, seen.method)
            return self._break(client, fault, seen.method)
        answer = [
            line for line in answer if line.partition(b":")[0].strip().lower().decode() not in fault.without
        ]
        answer += [f"{name}: {value}".encode() for name, value in fault.with_headers.items()]
        if self._encrypted and b" 2" in answer[0] and seen.operation != "ListObjects":
            answer = [self._mirror(line) for line in answer] + [_ENCRYPTED.encode()]
        client.send(_joined(answer))
        change = self._mirror if b"application/xml" in b"\n".join(answer) else None
        server.body_to(client, answer, fault.flip_answer, fault.cut_answer, seen.method, change)
        if fault.cut_answer is not None:
            return self._break(client, fault, seen.method)
        return b"connection: close" not in b"\n".join(answer).lower()

    def _mirror(self, text: bytes) -> bytes:
        return mirrored(text) if self._encrypted else text

    def _break(self, client: _Side, fault: Fault, method: str) -> bool:
        """Ends a connection as the fault wants it; False, since it is over."""
        if fault.stall:
            self._ended.wait(LONGEST_STALL)
        if fault.reset:
            return client.reset()
        if fault.status:
            client.send(fault.answer(method))
        return False

    def _received(self, head: List[bytes]) -> Tuple[Seen, Optional[Fault]]:
        method, target, _ = head[0].decode("latin-1").split(" ", 2)
        path, _, query = target.partition("?")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.decode("latin-1").partition(":") for line in head[1:])
        }
        with self._lock:
            seen = Seen(
                len(self.seen) + 1,
                method,
                unquote(path),
                dict(parse_qsl(query, keep_blank_values=True)),
                headers,
            )
            self.seen.append(seen)
            for fault in self.faults:
                if fault.times > 0 and fault.when(seen):
                    fault.times -= 1
                    return seen, fault
        return seen, None


class _Side:
    """One of the two connections."""

    def __init__(self, raw: socket.socket, file: BinaryIO) -> None:
        self._raw = raw
        self._file = file

    def head(self) -> Optional[List[bytes]]:
        """The lines of a request's or an answer's head; None at the end."""
        lines: List[bytes] = []
        while True:
            line = self._file.readline(65537)
            if not line:
                return None
            if line == b"\r\n":
                if lines:
                    return lines
                continue
            lines.append(line.rstrip(b"\r\n"))

    def send(self, data: bytes) -> None:
        self._raw.sendall(data)

    def reset(self) -> bool:
        """Ends the connection with RST."""
        self._raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._raw.shutdown(socket.SHUT_RD)
        return False

    def skip(self, head: List[bytes], method: str = "PUT") -> None:
        """Reads a body and drops it."""
        for _ in self._body(head, method):
            pass

    def body_to(
        self,
        other: _Side,
        head: List[bytes],
        flip: Optional[int],
        cut: Optional[int] = None,
        method: str = "PUT",
        change: Optional[Callable[[bytes], bytes]] = None,
    ) -> None:
        done = 0
        for piece in self._body(head, method):
            piece = change(piece) if change is not None else piece
            if flip is not None and done <= flip < done + len(piece):
                changed = bytearray(piece)
                changed[flip - done] ^= 1
                piece = bytes(changed)
            if cut is not None and done + len(piece) >= cut:
                other.send(piece[: cut - done])
                return
            other.send(piece)
            done += len(piece)

    def _body(self, head: List[bytes], method: str) -> Iterator[bytes]:
        fields = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(b":") for line in head[1:])
        }
        if method == "HEAD" or head[0].split()[1] in (b"204", b"304"):
            return
        if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
            while True:
                line = self._file.readline()
                size = int(line.split(b";")[0], 16)
                yield line + self._file.read(size + 2)
                if size == 0:
                    return
        left = int(fields.get(b"content-length", b"0"))
        while left:
            piece = self._file.read(min(left, 65536))
            if not piece:
                raise EOFError
            left -= len(piece)
            yield piece


def _joined(head: List[bytes]) -> bytes:
    return b"\r\n".join(head) + b"\r\n\r\n"
