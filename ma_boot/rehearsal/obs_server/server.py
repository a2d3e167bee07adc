"""An OBS on loopback: threads, HTTP/1.1 with connections that stay, and the faults that a test orders.

with ObsServer(directory, [Credentials("AK", "SK")]) as server:
    server.create_bucket("bucket")
    ...                                                # clients talk to server.url
"""

from __future__ import annotations

import contextlib
import itertools
import re
import socket
import ssl
import threading
import time
from dataclasses import replace
from email.utils import formatdate
from http import HTTPStatus
from pathlib import Path
from typing import Iterable, List, NamedTuple, Optional, Set, Tuple

from ma_boot.rehearsal.obs_server.call import Call, Store
from ma_boot.rehearsal.obs_server.operations import perform
from ma_boot.rehearsal.obs_server.storage.buckets import Buckets
from ma_boot.rehearsal.obs_server.storage.refusals import Refusal
from ma_boot.rehearsal.obs_server.wire import answers, faults
from ma_boot.rehearsal.obs_server.wire.answers import Answer
from ma_boot.rehearsal.obs_server.wire.body import Body
from ma_boot.rehearsal.obs_server.wire.connection import Connection
from ma_boot.rehearsal.obs_server.wire.faults import Fault
from ma_boot.rehearsal.obs_server.wire.request import Request, address, bucket_in_host, parse
from ma_boot.rehearsal.obs_server.wire.signatures import Credentials, prefix_of, verify

PAUSES = {"drip": (0.1, 1 << 18), "trickle": (0.05, 100)}  # seconds before so many bytes
_SIGNING = re.compile(
    r"(?:^|(?<=&))(Expires|AWSAccessKeyId|AccessKeyId|Signature|x-(amz|obs)-security-token)=[^&]*(&|$)"
)


class Seen(NamedTuple):
    """A request that came. `range` is the header's value, or empty."""

    method: str
    path: str
    query: str
    range: str


class ObsServer:
    """Serves while it is a context; `port` 0 takes a free one.

    Buckets are addressed in the path, or before `domain` in the host's name. `faults` and `credentials` may
    be changed at any time; setting `release` ends what hangs. What an earlier server left in `root` is kept.
    `buckets` are those that are kept elsewhere than in `root`.
    """

    def __init__(
        self,
        root: Path,
        credentials: Iterable[Credentials],
        host: str = "127.0.0.1",
        port: int = 0,
        domain: str = "localhost",
        tls: Optional[ssl.SSLContext] = None,
        buckets: Optional[Buckets] = None,
    ) -> None:
        self.credentials: List[Credentials] = list(credentials)
        self.faults: List[Fault] = []
        self.seen: List[Seen] = []
        self.connections = 0
        self.release = threading.Event()
        self.port = port
        self.root = root
        self._store = Store(root, buckets)
        self._host, self._domain, self._tls = host, domain, tls
        self._lock = threading.Lock()
        self._open: Set[Connection] = set()
        self._threads: Set[threading.Thread] = set()
        self._numbers = itertools.count(1)

    @property
    def url(self) -> str:
        """Where it serves, in path style."""
        return f"{'https' if self._tls else 'http'}://{self._host}:{self.port}"

    @property
    def requests(self) -> List[Tuple[str, str]]:
        """The method and the path with its query, short of a signature, of each request that came."""
        found = ((one.method, one.path, _SIGNING.sub("", one.query).rstrip("&")) for one in list(self.seen))
        return [(method, f"{path}?{query}" if query else path) for method, path, query in found]

    def create_bucket(self, name: str) -> None:
        """Makes a bucket, as a request would."""
        self._store.buckets.create(name)

    def __enter__(self) -> ObsServer:
        self._listener = socket.create_server((self._host, self.port), backlog=1024)
        self.port = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, name="obs-server", daemon=True)
        self._acceptor.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.release.set()
        self._listener.shutdown(socket.SHUT_RDWR)  # which wakes accept()
        self._acceptor.join()
        self._listener.close()
        with self._lock:
            threads = list(self._threads)
            for connection in self._open:
                connection.end()
        for thread in threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            try:
                connection = self._connection(accepted)
            except OSError:  # the client has gone already
                accepted.close()
                continue
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            with self._lock:
                self.connections += 1
                self._open.add(connection)
                self._threads.add(thread)
            thread.start()

    def _connection(self, accepted: socket.socket) -> Connection:
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is None:
            return Connection(accepted)
        return Connection(self._tls.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False))

    def _serve(self, connection: Connection) -> None:
        try:
            while self._exchange(connection):
                pass
        except OSError:
            pass  # the client has gone, or the server is ending
        finally:
            connection.close()
            with self._lock:
                self._open.discard(connection)
                self._threads.discard(threading.current_thread())

    def _exchange(self, connection: Connection) -> bool:
        """One request and its answer; False when the connection ends."""
        head = connection.head()
        if not head:
            return False
        try:
            request = parse(head)
            body = Body(request, connection)
        except Refusal as refusal:
            self._send(connection, "GET", answers.refused(refusal, ""), keep=False)
            return False
        path, _, query = request.target.partition("?")
        with self._lock:
            self.seen.append(Seen(request.method, path, query, request.headers.get("range", "")))
            fault = faults.take(self.faults, request.method, request.target)
        if fault is not None:
            return self._broken(connection, request, body, fault)
        answer = self._answer(request, body)
        whole = body.drained()  # before the answer: one that comes while the client sends may be lost
        keep = whole and request.keeps_alive
        self._send(connection, request.method, answer, keep)
        return keep

    def _answer(self, request: Request, body: Body) -> Answer:
        now = time.time()
        try:
            bucket, key = address(request, self._domain)
            if request.method == "HEAD" and "apiversion" in request.parameters:  # not signed, says OBS' SDK
                if bucket:
                    self._store.buckets.get(bucket)
                return Answer(200, {"x-obs-api": "3.0"})
            verify(request, bucket_in_host(request, self._domain), self.credentials, now)
            return perform(Call(request, body, bucket, key, prefix_of(request), now, self._store))
        except Refusal as refusal:
            return answers.refused(refusal, request.path)
        except ConnectionError:
            raise
        except OSError as error:  # of the server's own disk
            return answers.refused(Refusal("InternalError", str(error)), request.path)

    def _send(self, connection: Connection, method: str, answer: Answer, keep: bool) -> None:
        head = self._head(answer, keep)
        if answer.file is None:
            connection.send(head + (answer.body if method != "HEAD" else b""))
            return
        with answer.file:
            if method == "HEAD":
                connection.send(head)
            else:
                connection.send_file(head, answer.file, answer.offset, answer.length)

    def _head(self, answer: Answer, keep: bool) -> bytes:
        lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        number = next(self._numbers)
        lines.append(f"x-obs-request-id: {number:016X}")
        lines.append(f"x-amz-request-id: {number:016X}")
        lines.append(f"Date: {formatdate(usegmt=True)}")
        if answer.status not in (204, 304):
            lines.append(f"Content-Length: {answer.size}")
        lines.append("Connection: keep-alive\r\n\r\n" if keep else "Connection: close\r\n\r\n")
        return "\r\n".join(lines).encode("latin-1", "replace")

    def _broken(self, connection: Connection, request: Request, body: Body, fault: Fault) -> bool:
        """An exchange under a fault."""
        if fault.kind == "hang":
            self.release.wait()
            return False
        if fault.kind == "reset" or (fault.kind == "reset-body" and not body.is_read):
            if fault.kind == "reset-body":
                body.read_half()
            connection.reset()
            return False
        answer = faults.refusal(fault, request.path)
        if answer is None:
            if fault.kind == "ignore-range":
                headers = {name: value for name, value in request.headers.items() if name != "range"}
                request = replace(request, headers=headers)
            if fault.kind == "short-write":
                body.lose_from = body.length // 2
            answer = self._answer(request, body)
        whole = body.drained()  # before the answer: one that comes while the client sends may be lost
        keep = whole and request.keeps_alive
        answer = faults.damaged(_loaded(answer), fault.kind, prefix_of(request))
        if fault.kind not in faults.ON_THE_LINE or request.method == "HEAD":
            self._send(connection, request.method, answer, keep)
            return keep
        self._send_broken(connection, answer, fault.kind)
        return False

    def _send_broken(self, connection: Connection, answer: Answer, kind: str) -> None:
        head = self._head(answer, keep=False)
        if kind in PAUSES:
            seconds, size = PAUSES[kind]
            connection.send(head)
            for start in range(0, len(answer.body), size):
                self.release.wait(seconds)
                connection.send(answer.body[start : start + size])
            return
        connection.send(head + answer.body[: len(answer.body) // 2])
        if kind == "stall":
            self.release.wait()
        elif kind == "reset-body":
            connection.reset()


def _loaded(answer: Answer) -> Answer:
    """The answer with its body in memory."""
    if answer.file is None:
        return answer
    with contextlib.closing(answer.file) as file:
        file.seek(answer.offset)
        return replace(answer, body=file.read(answer.length), file=None, offset=0, length=0)
