"""Requests for small objects, by a loop with several connections."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from path_mapping.errors import NotFound
from path_mapping.stores.objects import Copy
from path_mapping.stores.units import GetFile
from path_mapping.workers.loop import Loop
from path_mapping.workers.pool import Outcome
from path_mapping.workers.retry import RetriedStore
from tests.obs import MemoryObs, obs_fault
from tests.transfers import (
    SilentHandler,
    obs_store,
    resolve_example_hosts_locally,
    send,
    serving,
    tls_context,
    tree,
    write,
)

FILES = {f"{number:02}": os.urandom(20_000 + number) for number in range(30)}
SIZES = {name: len(content) for name, content in FILES.items()}
AHEAD = 6


class Together(SilentHandler):
    """Server that answers no request before `AHEAD` + 1 have arrived; it closes each second connection."""

    protocol_version = "HTTP/1.1"
    come = threading.Condition()
    asked: list[str] = []  # noqa: RUF012 -- of all handlers

    def do_HEAD(self) -> None:
        """The kind of signature of a bucket with a name."""
        self.send_response(200)
        self.send_header("x-obs-api", "3.0")
        self.end_headers()
        self.close_connection = True

    def do_GET(self) -> None:
        kind = type(self)
        with kind.come:
            kind.asked.append(self.path)
            kind.come.notify_all()
            together = kind.come.wait_for(lambda: len(kind.asked) > AHEAD, 20)
        self.send_response(200 if together else 400)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"good")
        self.close_connection = self.path.endswith(("1", "3", "5", "7", "9"))  # without saying so


def troubled(outcomes: dict[str, Outcome]) -> list[tuple[str, object, int]]:
    """The objects that failed or were asked for again, with the error and the number of retries."""
    return [
        (name, outcome.error, outcome.retries)
        for name, outcome in outcomes.items()
        if outcome.error or outcome.retries
    ]


class LateHandshakes(ThreadingHTTPServer):
    """Completes no handshake of TLS before `AHEAD` + 1 connections have come."""

    def __init__(self, bundle: Path) -> None:
        self._context = tls_context(bundle)
        self._come = threading.Condition()
        self._connections = 0
        super().__init__(("127.0.0.1", 0), Together)

    def finish_request(self, request: socket.socket, client: tuple[str, int]) -> None:  # type: ignore[override]
        with self._come:
            self._connections += 1
            self._come.notify_all()
            if not self._come.wait_for(lambda: self._connections > AHEAD, 10):
                return
        with self._context.wrap_socket(request, server_side=True) as line:
            super().finish_request(line, client)


@pytest.fixture
def stored(obs: MemoryObs, tmp_path: Path) -> MemoryObs:
    """A server that has the files."""
    send(obs_store(obs.url), write(tmp_path, {f"out/{name}": content for name, content in FILES.items()}))
    return obs


@pytest.fixture
def together() -> Iterator[str]:
    Together.asked = []
    with serving(Together) as url:
        yield url


def fetched(
    url: str, sizes: dict[str, int], target: Path, batches: int = 1, bundle: str = ""
) -> dict[str, Outcome]:
    """The outcomes of one loop, by the names of the objects."""
    root, names = os.fspath(target), list(sizes)
    units = [
        GetFile(number, Copy(f"{root}/{name}", root, "bucket", f"out/{name}", sizes[name]))
        for number, name in enumerate(names)
    ]
    each = len(units) // batches
    pool = Loop(RetriedStore(obs_store(url, bundle=bundle or None)), 1 + AHEAD)
    try:
        for start in range(0, len(units), each):
            pool.submit(list(units[start : start + each]))
        outcomes: list[Outcome] = []
        while len(outcomes) < len(units):
            new = pool.outcomes(30.0)
            assert new, "no outcome in 30 s"
            outcomes += new
    finally:
        pool.close()
    return {names[outcome.number]: outcome for outcome in outcomes}


def test_requests_are_sent_before_the_first_is_answered_and_once_each(together: str, tmp_path: Path) -> None:
    """Requests on connections that the server has closed meanwhile are sent again without a fault."""
    outcomes = fetched(together, dict.fromkeys(FILES, 4), tmp_path / "in")
    assert troubled(outcomes) == []
    assert tree(tmp_path / "in") == dict.fromkeys(FILES, b"good")
    assert sorted(Together.asked) == [f"/bucket/out/{name}" for name in FILES]


def test_first_batch_queries_the_signature_version_once(
    together: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_example_hosts_locally(monkeypatch)
    named = together.replace("127.0.0.1", "obs.example.com")
    outcomes = fetched(named, dict.fromkeys(FILES, 4), tmp_path / "in")
    assert troubled(outcomes) == []
    assert sorted(Together.asked) == [f"/out/{name}" for name in FILES]


def test_connections_are_opened_concurrently(tmp_path: Path) -> None:
    """Each takes the network two or three round trips, with TLS."""
    Together.asked = []
    server = LateHandshakes(tmp_path / "ca.pem")
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    url = f"https://localhost:{server.server_port}"
    try:
        outcomes = fetched(url, dict.fromkeys(FILES, 4), tmp_path / "in", bundle=str(tmp_path / "ca.pem"))
    finally:
        server.shutdown()
        server.server_close()
    assert troubled(outcomes) == []
    assert tree(tmp_path / "in") == dict.fromkeys(FILES, b"good")


@pytest.mark.parametrize("batches", [1, 5])
@pytest.mark.parametrize("kind", ["503", "429", "500", "reset", "reset-body", "cut", "flip", "wrong-crc"])
def test_a_fault_of_one_object_costs_its_own_retries_only(
    stored: MemoryObs, tmp_path: Path, kind: str, batches: int
) -> None:
    stored.faults.append(obs_fault(kind, "GET", "/out/07", times=2))
    outcomes = fetched(stored.url, SIZES, tmp_path / "in", batches)
    assert [(name, outcome.error) for name, outcome in outcomes.items() if outcome.error] == []
    retries = {name: outcome.retries for name, outcome in outcomes.items() if outcome.retries}
    if kind == "reset":  # on a kept connection it may be the server's end of it, and counts for nothing
        assert not {*retries} - {"07"}
    else:
        assert retries == {"07": 2}
    assert tree(tmp_path / "in") == FILES


def test_missing_object_fails_alone(stored: MemoryObs, tmp_path: Path) -> None:
    obs_store(stored.url).delete("bucket", "out/12")
    outcomes = fetched(stored.url, SIZES, tmp_path / "in")
    assert {name: type(outcome.error) for name, outcome in outcomes.items() if outcome.error} == {
        "12": NotFound
    }
    assert tree(tmp_path / "in") == {name: content for name, content in FILES.items() if name != "12"}


def test_closed_pool_closes_pending_requests(stored: MemoryObs, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    root = os.fspath(tmp_path / "in")
    for _ in range(5):
        pool = Loop(RetriedStore(obs_store(stored.url)), 2 * AHEAD)
        pool.submit([
            GetFile(number, Copy(f"{root}/{name}", root, "bucket", f"out/{name}", size))
            for number, (name, size) in enumerate(SIZES.items())
        ])  # fmt: skip
        pool.outcomes(0.01)
        pool.close()
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("transfer-")] == []
    assert len(ours(before)) <= before


def ours(before: int) -> list[str]:
    """The descriptors of this process, once the threads of the server have closed theirs."""
    for _ in range(200):
        descriptors = os.listdir("/proc/self/fd")
        if len(descriptors) <= before:
            break
        threading.Event().wait(0.05)
    return descriptors
