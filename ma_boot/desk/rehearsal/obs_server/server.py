"""An OBS on loopback: a thread per connection, HTTP/1.1 with persistent connections, faults on demand.

with ObsServer(Buckets(root), Path(parts), [KeyPair("AK", "SK")]) as server:
    ...                                                # clients talk to server.url
"""

from __future__ import annotations

import itertools
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from ma_boot.desk.rehearsal.obs_server.buckets import Buckets, Refusal
from ma_boot.desk.rehearsal.obs_server.faults import PendingRequest, RequestFault
from ma_boot.desk.rehearsal.obs_server.operations import Call, perform
from ma_boot.desk.rehearsal.obs_server.request import Body, Connection, HttpRequest, parse_head
from ma_boot.desk.rehearsal.obs_server.responses import HttpResponse, refused
from ma_boot.desk.rehearsal.obs_server.signatures import KeyPair, verify
from ma_boot.desk.rehearsal.obs_server.uploads import Uploads

_Server = TypeVar("_Server", bound="HttpServer")


class HttpServer(ABC):
    """Serves as a context manager; `port` 0 selects a free one.

    `faults` may be changed at any time; setting `release` ends requests that hang.
    """

    def __init__(self, host: str, port: int) -> None:
        self.faults: list[RequestFault] = []
        self.release = threading.Event()
        self.host, self.port = host, port
        self._lock = threading.Lock()
        self._open: set[Connection] = set()
        self._threads: set[threading.Thread] = set()
        self._numbers = itertools.count(1)

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"http://{self.host}:{self.port}"

    def listen(self) -> socket.socket:
        """A socket that listens at the host and port."""
        return socket.create_server((self.host, self.port), backlog=1024)

    def __enter__(self: _Server) -> _Server:
        self._listener = self.listen()
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
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:  # the client has disconnected already
                accepted.close()
                continue
            connection = Connection(accepted)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            with self._lock:
                self._open.add(connection)
                self._threads.add(thread)
            thread.start()

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
        number = next(self._numbers)
        try:
            request = self.receive(number, head)
            body = Body(request, connection)
        except Refusal as refusal:
            response = refused(refusal, "")
            connection.send(response.head(number, keep=False) + response.body)
            return False
        pending = PendingRequest(
            number, request, body, connection=connection, respond=self.respond, release=self.release
        )
        fault = self._fault(request)
        return pending.send(pending.proper()) if fault is None else fault.serve(pending)

    def _fault(self, request: HttpRequest) -> RequestFault | None:
        """The first fault that breaks this request, with one of its times taken off."""
        with self._lock:
            for fault in self.faults:
                if fault.times > 0 and fault.breaks(request):
                    fault.times -= 1
                    return fault
        return None

    def receive(self, number: int, head: bytes) -> HttpRequest:
        """Parses the head of the request of this number; raises `Refusal` if it is not HTTP/1."""
        return parse_head(head)

    @abstractmethod
    def respond(self, request: HttpRequest, body: Body) -> HttpResponse:
        """The proper response to a request."""


class ObsServer(HttpServer):
    """Serves `buckets` as OBS; `parts` is a directory of its own.

    Buckets are addressed in the path, or in the host name before `domain`. `credentials` may be changed at
    any time.
    """

    def __init__(
        self,
        buckets: Buckets,
        parts: Path,
        credentials: Iterable[KeyPair],
        host: str = "127.0.0.1",
        port: int = 0,
        domain: str = "localhost",
    ) -> None:
        super().__init__(host, port)
        self.buckets = buckets
        self.credentials: list[KeyPair] = list(credentials)
        self._uploads = Uploads(parts)
        self._domain = domain

    def respond(self, request: HttpRequest, body: Body) -> HttpResponse:
        """The proper response to a request."""
        now = time.time()
        try:
            bucket, key = request.address(self._domain)
            if request.method == "HEAD" and "apiversion" in request.parameters:  # the SDK does not sign it
                if bucket:
                    self.buckets.get(bucket)
                return HttpResponse(200, {"x-obs-api": "3.0"})
            verify(request, request.bucket_in_host(self._domain), self.credentials, now)
            return perform(
                Call(request, body, bucket, key=key, now=now, buckets=self.buckets, uploads=self._uploads)
            )
        except Refusal as refusal:
            return refused(refusal, request.path)
        except ConnectionError:
            raise
        except OSError as error:  # from the server's own disk
            return refused(Refusal("InternalError", str(error)), request.path)
