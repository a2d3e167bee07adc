"""The event loop with a peer that does things in any order: every file ends once, complete or absent."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from path_mapping.localfs.source_file import md5_of
from path_mapping.stores.objects import Copy
from path_mapping.stores.units import GetFile, PutFile, Unit
from path_mapping.workers.loop import Loop
from path_mapping.workers.pool import Outcome
from path_mapping.workers.retry import RetriedStore, RetryPolicy
from tests.transfers import obs_store, tls_context, tree

SIZE = 40_000  # bytes of a file: several records of TLS
CONNECTIONS = 3
FILES = 8
CONTENTS = [os.urandom(SIZE + number) for number in range(FILES)]


class PeerConnection:
    """The peer's end of a connection; what it receives and sends passes through TLS if there is a context."""

    def __init__(self, raw: socket.socket, context: ssl.SSLContext | None) -> None:
        raw.setblocking(False)
        self.raw = raw
        self.tls: ssl.SSLObject | None = None
        self.coming, self.going = ssl.MemoryBIO(), ssl.MemoryBIO()
        if context is not None:
            self.tls = context.wrap_bio(self.coming, self.going, server_side=True)
        self.received = b""
        # Bytes that are still to be sent, and those of the request's body that are still to come.
        self.unsent, self.body = b"", 0
        # Of the object of the last request.
        self.content = b""

    def receive(self, most: int) -> None:
        """Takes some bytes in, and answers the requests that are complete."""
        data = self.raw.recv(most)
        if not data:
            raise ConnectionResetError
        if self.tls is None:
            self.received += data
        else:
            self.coming.write(data)
            with suppress(ssl.SSLWantReadError):
                while True:
                    self.received += self.tls.read(1 << 16)
            self.unsent += self.going.read()
        self._answer()

    def _answer(self) -> None:
        while True:
            if self.body:
                taken = min(self.body, len(self.received))
                self.received, self.body = self.received[taken:], self.body - taken
                if self.body:
                    return
                self._reply(b"")
            head, end, rest = self.received.partition(b"\r\n\r\n")
            if not end:
                return
            self.received = rest
            method, path = head.split(b" ")[:2]
            self.content = CONTENTS[int(path.rpartition(b"/")[2])]
            if method == b"PUT":
                self.body = len(self.content)
            else:
                self._reply(self.content)

    def _reply(self, body: bytes) -> None:
        etag = md5_of([self.content]).encode()
        self.say(b'HTTP/1.1 200 OK\r\nETag: "%b"\r\nContent-Length: %d\r\n\r\n' % (etag, len(body)) + body)

    def say(self, data: bytes) -> None:
        """Queues bytes to be sent."""
        if self.tls is None:
            self.unsent += data
        else:
            self.tls.write(data)
            self.unsent += self.going.read()

    def send(self, most: int) -> None:
        """Sends some of what is to be sent: a part of a record, or of a head, or of several."""
        if self.unsent:
            self.unsent = self.unsent[self.raw.send(self.unsent[:most]) :]

    def garble(self) -> None:
        """Says something that is no HTTP."""
        with suppress(ssl.SSLError):
            self.say(b"\x00garbage\r\n\r\n")

    def reset(self) -> None:
        """Ends the connection by RST."""
        self.raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.raw.close()


class Peer:
    """A server that does nothing but what `do` is told."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self._connections: list[PeerConnection] = []

    def do(self, action: str, which: int, most: int) -> None:
        """Does one thing with one of its connections."""
        if action == "accept":
            with suppress(BlockingIOError):
                self._connections.append(PeerConnection(self._listener.accept()[0], self._context))
        elif self._connections:
            connection = self._connections[which % len(self._connections)]
            try:
                if action in ("receive", "send"):
                    getattr(connection, action)(most)
                elif action == "garble":
                    connection.garble()
                else:
                    self._connections.remove(connection)
                    connection.reset() if action == "reset" else connection.raw.close()
            except BlockingIOError:
                return
            except OSError:  # includes errors of TLS
                connection.raw.close()
                self._connections.remove(connection)

    def serve(self) -> None:
        """Does everything that can be done."""
        for _ in range(CONNECTIONS):
            self.do("accept", 0, 0)
        for connection in list(self._connections):
            for action in ("receive", "send"):
                if connection in self._connections:
                    self.do(action, self._connections.index(connection), 1 << 20)

    def close(self) -> None:
        for connection in self._connections:
            connection.raw.close()
        self._listener.close()


@pytest.fixture(scope="module", params=["http", "https"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, str]:
    bundle = tmp_path_factory.mktemp("tls") / "ca.pem"
    return tls_context(bundle), str(bundle)


ACTIONS = st.tuples(
    st.sampled_from(["accept"] * 3 + ["receive", "send", "turn"] * 6 + ["garble", "close", "reset"]),
    st.integers(0, CONNECTIONS),
    st.sampled_from([1, 100, 5_000, 1 << 20]),
)


def units_in(base: Path) -> list[Unit]:
    """Downloads and uploads in turn."""
    units: list[Unit] = []
    for number, content in enumerate(CONTENTS):
        if number % 2:
            source = base / f"out-{number}"
            source.write_bytes(content)
            copy = Copy(os.fspath(source), os.fspath(base), "bucket", f"{number}", len(content))
            units.append(PutFile(number, copy, checked=False))
        else:
            root = os.fspath(base / "in")
            units.append(GetFile(number, Copy(f"{root}/{number}", root, "bucket", f"{number}", len(content))))
    return units


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(st.lists(ACTIONS, min_size=40, max_size=150), st.booleans())
def test_each_file_ends_once_and_nothing_stays_behind(
    scheme: str, context: tuple[ssl.SSLContext, str], actions: list[tuple[str, int, int]], cancelled: bool
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    peer = Peer(context[0] if scheme == "https" else None)
    host = "localhost" if scheme == "https" else "127.0.0.1"
    store = obs_store(f"{scheme}://{host}:{peer.port}", bundle=context[1])
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as directory:
        pool = Loop(RetriedStore(store, patience=RetryPolicy(0.0)), CONNECTIONS)
        pool.submit(units_in(Path(directory)))
        try:
            for action, which, most in actions:
                if action == "turn":
                    outcomes += pool.outcomes(0.0005)
                else:
                    peer.do(action, which, most)
            for _ in range(0 if cancelled else 20_000):
                if len(outcomes) == FILES:
                    break
                peer.serve()
                outcomes += pool.outcomes(0.001)
        finally:
            pool.close()
            peer.close()
        numbers = [outcome.number for outcome in outcomes]
        assert len(set(numbers)) == len(numbers)
        assert cancelled or sorted(numbers) == list(range(FILES))
        assert len(os.listdir("/proc/self/fd")) == before
        files = tree(Path(directory, "in"))
        good = {str(outcome.number) for outcome in outcomes if outcome.error is None}
        assert good - set(files) <= {str(number) for number in range(1, FILES, 2)}, (
            "uploads have no file here"
        )
        assert all(content == CONTENTS[int(name)] for name, content in files.items()), "unfinished, or wrong"
        assert cancelled or set(files) <= good
