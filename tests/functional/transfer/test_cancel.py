"""Transfers that are given up: nothing wrong is left in their files, and nothing of them in the process."""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from path_mapping.errors import Cancelled
from path_mapping.localfs.names import is_temporary
from path_mapping.localfs.source_file import md5_of
from path_mapping.stores.objects import Copy
from path_mapping.stores.units import GetFile
from path_mapping.transfer.scheduler import Progress
from path_mapping.workers.loop import Loop
from path_mapping.workers.retry import RetriedStore
from tests.obs import MemoryObs
from tests.transfers import fetch, obs_store, tls_context, tree

MIB = 1 << 20
CONTENT = random.Random(5).randbytes(2 * MIB)


class Dripping:
    """A server with TLS that answers every request with `CONTENT`, piece by piece, and states no checksum.

    It ends a connection after `most` answers, without TLS saying so.
    """

    most = 1_000_000

    def __init__(self, bundle: Path) -> None:
        self._context = tls_context(bundle)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = self._listener.getsockname()[1]

    def __enter__(self) -> Dripping:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        draw = random.Random(3)
        with suppress(OSError), self._context.wrap_socket(client, server_side=True) as line:
            for _ in range(self.most):
                if not line.recv(65536):
                    return
                line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(CONTENT))
                for start in range(0, len(CONTENT), 256 << 10):
                    line.sendall(CONTENT[start : start + (256 << 10)])
                    time.sleep(draw.uniform(0, 0.002))


@pytest.fixture
def dripping(tmp_path: Path) -> Iterator[Dripping]:
    with Dripping(tmp_path / "ca.pem") as server:
        yield server


def test_a_file_of_a_closed_pool_is_whole_or_not_there(dripping: Dripping, tmp_path: Path) -> None:
    """As after Ctrl-C: the pool is closed in the middle of its files, without a cancelled transfer."""
    draw, root = random.Random(7), tmp_path / "in"
    store = obs_store(f"https://localhost:{dripping.port}", bundle=str(tmp_path / "ca.pem"))
    for attempt in range(40):
        pool = Loop(RetriedStore(store), 3)
        for number in range(6):
            path = os.fspath(root / f"{attempt}-{number}")
            pool.submit([GetFile(number, Copy(path, os.fspath(root), "bucket", "a", len(CONTENT)))])
        until = time.monotonic() + draw.uniform(0.02, 0.08)
        while time.monotonic() < until:
            pool.outcomes(0.01)
        pool.close()
    files = list(root.iterdir())
    assert 0 < len(files) < 6 * 40, "none was given up, or all of them"
    assert [path.name for path in files if path.read_bytes() != CONTENT] == []


def test_a_kept_connection_that_ended_is_no_fault(dripping: Dripping, tmp_path: Path) -> None:
    dripping.most = 1
    store = obs_store(f"https://localhost:{dripping.port}", bundle=str(tmp_path / "ca.pem"))
    pool = Loop(RetriedStore(store), 1)
    for number in range(3):
        path = os.fspath(tmp_path / "in" / str(number))
        pool.submit([GetFile(number, Copy(path, os.fspath(tmp_path), "bucket", "a", len(CONTENT)))])
        (outcome,) = pool.outcomes(20)
        assert (outcome.error, outcome.retries) == (None, 0)
    pool.close()


def test_cancelled_downloads_leave_nothing_in_the_process_and_are_resumed(
    obs: MemoryObs, tmp_path: Path
) -> None:
    store = obs_store(obs.url)
    source = tmp_path / "source"
    large = random.Random(6).randbytes(81 * MIB)  # six ranges
    source.write_bytes(large)
    store.write("bucket", "in/large", source, md5_of([large]), _ignored)
    for attempt in range(1, 4):
        cancel = threading.Event()

        def stop(
            now: Progress, cancel: threading.Event = cancel, most: int = (20 + 18 * attempt) * MIB
        ) -> None:
            if now.bytes_done > most:
                cancel.set()

        with pytest.raises(Cancelled):
            fetch(store, tmp_path, cancel=cancel, progress=stop)
        assert _descriptors(tmp_path) == []
        assert [thread.name for thread in threading.enumerate() if thread.name.startswith("transfer-")] == []
        names = [path.name for path in (tmp_path / "in").iterdir()]
        assert sorted(map(is_temporary, names)) == [True, True], "the file and its journal"
    obs.seen.clear()
    fetch(store, tmp_path)
    assert tree(tmp_path / "in") == {"large": large}
    ranges = [seen.headers["range"] for seen in obs.seen if "range" in seen.headers]
    assert 1 <= len(ranges) < 6, "what the first run fetched stayed"


def _ignored(size: int) -> None:
    """Does nothing with what was sent."""


def _descriptors(below: Path) -> list[str]:
    """Returns the files that this process has open below a directory; the server, in the same process, has others."""
    paths = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            paths.append(os.readlink(f"/proc/self/fd/{name}"))
    return [path for path in paths if path.startswith(os.fspath(below))]
