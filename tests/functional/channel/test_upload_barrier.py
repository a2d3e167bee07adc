"""Nodes wait for each other's uploads to shared outputs, by real channels."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ma_boot.node.peers.job_peers import JobPeers
from ma_boot.node.peers.upload_barrier import ANSWER_SECONDS, IDLE_SECONDS
from tests.functional.channel.simulated_job import Case, SimulatedNodes, simulated
from tests.functional.node import eventually

LONG = 60.0


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[SimulatedNodes]:
    with simulated(Case(0, "loader", 3, 1, 0, [0]), tmp_path) as nodes, listening(nodes.peers):
        yield nodes


@contextmanager
def listening(peers: list[JobPeers]) -> Iterator[None]:
    """Each node takes its messages, as its main thread does at each wake-up."""
    over = threading.Event()

    def listen(node: JobPeers) -> None:
        while not over.wait(0.02):
            node.listen()

    threads = [threading.Thread(target=listen, args=(node,)) for node in peers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


class Waiting:
    """A node that waits for its peers in a thread of its own."""

    def __init__(self, node: JobPeers) -> None:
        self.began, self.seconds = time.monotonic(), 0.0
        self._node = node
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self._node.uploads.wait(self.began + LONG, threading.Event())
        self.seconds = time.monotonic() - self.began

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> float:
        self._thread.join()
        return self.seconds


@pytest.mark.parametrize(("waiting", "writing"), [(0, 2), (1, 2), (1, 0)])
def test_a_node_waits_for_each_peer_that_writes(nodes: SimulatedNodes, waiting: int, writing: int) -> None:
    peers = nodes.peers
    peers[writing].uploads.announce(True)
    for node in range(3):
        if node != writing:
            peers[node].uploads.announce(True)
            peers[node].uploads.finish()
    wait = Waiting(peers[waiting])
    time.sleep(IDLE_SECONDS + 2)
    assert not wait.is_over
    peers[writing].uploads.finish()
    assert wait.join() < IDLE_SECONDS + 20


def test_all_nodes_continue_as_soon_as_all_have_finished(nodes: SimulatedNodes) -> None:
    for node in nodes.peers:
        node.uploads.announce(True)
        node.uploads.announce(False)
        node.uploads.finish()
    assert max([wait.join() for wait in map(Waiting, nodes.peers)]) < IDLE_SECONDS


def test_peers_that_train_are_not_waited_for(nodes: SimulatedNodes) -> None:
    nodes.peers[1].uploads.announce(True)
    nodes.peers[1].uploads.finish()
    assert IDLE_SECONDS <= Waiting(nodes.peers[1]).join() < IDLE_SECONDS + 10


@pytest.mark.parametrize("gone", [0, 2])
def test_peer_that_has_left_is_not_waited_for(nodes: SimulatedNodes, gone: int) -> None:
    nodes.peers[gone].uploads.announce(True)
    for node in (0, 1, 2):
        if node != gone:
            nodes.peers[node].uploads.finish()
    nodes.peers[gone].__exit__()
    eventually(lambda: gone in nodes.peers[0 if gone else 1].unreached, "the connection is lost")
    assert Waiting(nodes.peers[1]).join() < ANSWER_SECONDS + 10


def test_without_a_channel_no_node_waits(nodes: SimulatedNodes) -> None:
    alone = nodes.peers[1]
    alone.__exit__()
    alone.uploads.finish()
    assert Waiting(alone).join() < 1
