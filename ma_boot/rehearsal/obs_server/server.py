"""An OBS on loopback: a thread per connection, HTTP/1.1 with persistent connections, faults on demand.

with ObsServer(directory, [KeyPair("AK", "SK")]) as server:
    server.create_bucket("bucket")
    ...                                                # clients talk to server.url
"""

from __future__ import annotations

import itertools
import re
import socket
import ssl
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Iterable, List, NamedTuple, Optional, Set, Tuple

from ma_boot.rehearsal.obs_server.buckets import Buckets, Refusal, Uploads
from ma_boot.rehearsal.obs_server.operations import Call, perform
from ma_boot.rehearsal.obs_server.request import Body, Connection, HttpRequest, parse_head
from ma_boot.rehearsal.obs_server.responses import HttpResponse, ObsFault, refused, take
from ma_boot.rehearsal.obs_server.signatures import KeyPair, verify

PAUSES = {"drip": (0.1, 1 << 18), "trickle": (0.05, 100)}  # seconds, and bytes sent after them
_SIGNING = re.compile(
    r"(?:^|(?<=&))(Expires|AWSAccessKeyId|AccessKeyId|Signature|x-(amz|obs)-security-token)=[^&]*(&|$)"
)


class LoggedRequest(NamedTuple):
    """A received request; `range` is the value of the header, or empty."""

    method: str
    path: str
    query: str
    range: str


class ObsServer:
    """Serves as a context manager; `port` 0 selects a free one.

    Buckets are addressed in the path, or in the host name before `domain`. `faults` and `credentials` may be
    changed at any time; setting `release` ends requests that hang. Objects of an earlier server in `root` are
    kept, unless `buckets` are given.
    """

    def __init__(
        self,
        root: Path,
        credentials: Iterable[KeyPair],
        host: str = "127.0.0.1",
        port: int = 0,
        domain: str = "localhost",
        tls: Optional[ssl.SSLContext] = None,
        buckets: Optional[Buckets] = None,
    ) -> None:
        self.credentials: List[KeyPair] = list(credentials)
        self.faults: List[ObsFault] = []
        self.seen: List[LoggedRequest] = []
        self.connections = 0
        self.release = threading.Event()
        self.port = port
        self.root = root
        self._buckets = buckets or Buckets(root / "buckets")
        self._uploads = Uploads(root / "uploads")
        self._host, self._domain, self._tls = host, domain, tls
        self._lock = threading.Lock()
        self._open: Set[Connection] = set()
        self._threads: Set[threading.Thread] = set()
        self._numbers = itertools.count(1)

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"{'https' if self._tls else 'http'}://{self._host}:{self.port}"

    @property
    def requests(self) -> List[Tuple[str, str]]:
        """The method and target of each received request; targets without signatures."""
        found = ((one.method, one.path, _SIGNING.sub("", one.query).rstrip("&")) for one in list(self.seen))
        return [(method, f"{path}?{query}" if query else path) for method, path, query in found]

    def create_bucket(self, name: str, region: str = "") -> None:
        """Creates a bucket; `region` is what it says of its place."""
        self._buckets.create(name, region)

    def __enter__(self) -> ObsServer:
        self._listener = socket.create_server((self._host, self.port), backlog=1024)
        self.port = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, name="obs-server", daemon=True)
        self._acceptor.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.release.set()
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._acceptor.join()
        self._listener.close()
        with self._lock:
            threads = list(self._threads)
            for connection in self._open:
                connection.shut_down()
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
            except OSError:  # the client has disconnected already
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
            pass  # the client has disconnected, or the server shuts down
        finally:
            connection.close()
            with self._lock:
                self._open.discard(connection)
                self._threads.discard(threading.current_thread())

    def _exchange(self, connection: Connection) -> bool:
        """Serves one request; False if the connection is to be closed."""
        head = connection.head()
        if not head:
            return False
        try:
            request = parse_head(head)
            body = Body(request, connection)
        except Refusal as refusal:
            self._send(connection, "GET", refused(refusal, ""), keep=False)
            return False
        path, _, query = request.target.partition("?")
        with self._lock:
            self.seen.append(LoggedRequest(request.method, path, query, request.headers.get("range", "")))
            fault = take(self.faults, request.method, request.target)
        if fault is not None:
            return self._exchange_broken(connection, request, body, fault)
        response = self._response(request, body)
        whole = body.drained()  # first: a client that is still sending may lose the response
        keep = whole and request.keeps_alive
        self._send(connection, request.method, response, keep)
        return keep

    def _response(self, request: HttpRequest, body: Body) -> HttpResponse:
        now = time.time()
        try:
            bucket, key = request.address(self._domain)
            if request.method == "HEAD" and "apiversion" in request.parameters:  # the SDK does not sign it
                if bucket:
                    self._buckets.get(bucket)
                return HttpResponse(200, {"x-obs-api": "3.0"})
            verify(request, request.bucket_in_host(self._domain), self.credentials, now)
            return perform(Call(request, body, bucket, key, now, self._buckets, self._uploads))
        except Refusal as refusal:
            return refused(refusal, request.path)
        except ConnectionError:
            raise
        except OSError as error:  # from the server's own disk
            return refused(Refusal("InternalError", str(error)), request.path)

    def _send(self, connection: Connection, method: str, response: HttpResponse, keep: bool) -> None:
        head = response.head(next(self._numbers), keep)
        if response.file is None:
            connection.send(head + (response.body if method != "HEAD" else b""))
            return
        with response.file:
            if method == "HEAD":
                connection.send(head)
            else:
                connection.send_file(head, response.file, response.offset, response.length)

    def _exchange_broken(
        self, connection: Connection, request: HttpRequest, body: Body, fault: ObsFault
    ) -> bool:
        """Serves one request under a fault."""
        if fault.kind == "hang":
            self.release.wait()
            return False
        if fault.kind == "reset" or (fault.kind == "reset-body" and not body.is_read):
            if fault.kind == "reset-body":
                body.read_half()
            connection.reset()
            return False
        response = fault.response(request.path)
        if response is None:
            if fault.kind == "ignore-range":
                headers = {name: value for name, value in request.headers.items() if name != "range"}
                request = replace(request, headers=headers)
            if fault.kind == "short-write":
                body.lose_from = body.length // 2
            response = self._response(request, body)
        whole = body.drained()  # first: a client that is still sending may lose the response
        keep = whole and request.keeps_alive
        response = fault.damaged(response.loaded(), request.prefix)
        if not fault.is_mid_transfer or request.method == "HEAD":
            self._send(connection, request.method, response, keep)
            return keep
        self._send_partly(connection, response, fault.kind)
        return False

    def _send_partly(self, connection: Connection, response: HttpResponse, kind: str) -> None:
        head = response.head(next(self._numbers), keep=False)
        if kind in PAUSES:
            seconds, size = PAUSES[kind]
            connection.send(head)
            for start in range(0, len(response.body), size):
                self.release.wait(seconds)
                connection.send(response.body[start : start + size])
            return
        connection.send(head + response.body[: len(response.body) // 2])
        if kind == "stall":
            self.release.wait()
        elif kind == "reset-body":
            connection.reset()
