"""A checkpoint is asked for while the connection between two nodes is cut: no two ranks answer differently."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from ma_boot.node.observe.channel.channel import NodeChannel
from ma_boot.node.observe.channel.protocol import Address
from ma_boot.node.observe.peers import PeerMessage
from ma_boot.node.observe.saving import save_agreement, save_state
from ma_boot.node.observe.saving.save_agreement import SaveAgreement
from ma_boot.node.observe.saving.save_file import NUMBER
from ma_boot.node.observe.saving.save_requests import SaveOptions, SaveRequests
from ma_boot.processes.signals import SignalInbox
from tests.functional.channel.nodes import JOB, TOKEN, address
from tests.functional.node import eventually
from tests.functional.observe.conftest import Others
from tests.functional.supervisor.conftest import EventLog

RANK = """
import sys, time
from ma_boot.training import should_save
for step in range(1, 1000000):
    time.sleep(0.005)
    if should_save():
        print(step, flush=True)
"""


class Cable:
    """Forwards connections to an address, unless it is cut."""

    def __init__(self, to: Address) -> None:
        self._to = to
        self._server = socket.create_server(("127.77.0.2", 0))
        self._ends: list[socket.socket] = []
        self._is_cut = False
        self.address = Address(*self._server.getsockname())
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._is_cut = True
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._is_cut = False

    def close(self) -> None:
        self.cut()
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):  # the server is closed
            while True:
                caller, _ = self._server.accept()
                self._ends.append(caller)
                try:
                    node = socket.create_connection(self._to)
                except OSError:
                    caller.close()
                    continue
                self._ends.append(node)
                for pair in ((caller, node), (node, caller)):
                    threading.Thread(target=self._forward, args=pair, daemon=True).start()
                if self._is_cut:
                    self.cut()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if self._is_cut:
                    break
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Peer(Others):
    """The other node of two, by a real channel."""

    def __init__(self, channel: NodeChannel, node: int) -> None:
        super().__init__(1 - node, node=node)
        self.unreached = ()
        self._channel = channel

    def tell(self, kind: str, body: Mapping[str, Any]) -> None:
        self._channel.send(kind, body)

    def heard_of_saves(self) -> list[PeerMessage]:
        self.unreached = self._channel.unreached
        return list(self._channel.poll())


class Job:
    """Two nodes of two ranks each, whose connection is a cable."""

    def __init__(self, stack: ExitStack, root: Path, inbox: SignalInbox, journal: EventLog) -> None:
        at = address()
        self.cable = Cable(at)
        stack.callback(self.cable.close)
        self.requests: list[SaveRequests] = []
        self.outputs: list[Path] = []
        for node, meets in enumerate((at, self.cable.address)):
            channel = NodeChannel(TOKEN, JOB, node, 2, at, inbox)
            stack.callback(channel.close)
            channel.meet(meets)
            logs = root / f"logs-{node}"
            logs.mkdir()
            agreement = SaveAgreement(node, 2, 1)
            options, peer = SaveOptions(str(logs), 0.0), Peer(channel, node)
            requests = SaveRequests(options, agreement, peer, inbox=inbox, journal=journal)
            stack.callback(requests.close)
            self.requests.append(requests)
            for rank in (2 * node, 2 * node + 1):
                self.outputs.append(root / f"rank-{rank}")
                self._start(stack, self.outputs[-1], requests.path)
        self.wanted = root / "logs-0" / "save"

    def _start(self, stack: ExitStack, output: Path, path: str) -> None:
        with output.open("w") as file:
            rank = subprocess.Popen(
                [sys.executable, "-c", RANK], stdout=file, env={"MABOOT_SAVE_FILE": path, "PYTHONPATH": "."}
            )
        stack.callback(rank.wait)
        stack.callback(rank.kill)

    def numbers(self, node: int) -> list[int]:
        """The highest call of a node's ranks, and the answers that they read."""
        return [number for (number,) in NUMBER.iter_unpack(Path(self.requests[node].path).read_bytes())]

    def saved(self) -> list[set[str]]:
        """The steps at which each rank has saved."""
        return [set(output.read_text().split()) for output in self.outputs]


@pytest.fixture
def job(
    tmp_path: Path, inbox: SignalInbox, journal: EventLog, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Job]:
    monkeypatch.setattr(save_state, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(save_agreement, "ASK_SECONDS", 2.0)
    monkeypatch.setattr(save_agreement, "PAUSE_SECONDS", 0.5)
    with ExitStack() as stack:
        yield Job(stack, tmp_path, inbox, journal)


@pytest.mark.parametrize("asked", [0, 1])
def test_ranks_answer_alike_when_the_connection_is_cut_during_a_request(job: Job, asked: int) -> None:
    eventually(lambda: min(job.numbers(node)[0] for node in (0, 1)) > 10, "that all ranks make calls")
    job.wanted.touch()
    eventually(lambda: len(job.numbers(asked)) > 1, "the question on this node")
    job.cable.cut()
    in_doubt = [abs(number) for number in job.numbers(asked)[1:]]
    eventually(lambda: job.numbers(0)[0] > max(in_doubt), "that node 0 decides without the other")
    job.cable.mend()
    eventually(lambda: all(job.saved()), "that all ranks save")
    assert len(set(map(frozenset, job.saved()))) == 1, "at the same steps"
    before = job.numbers(1)[0]
    eventually(lambda: job.numbers(1)[0] > before, "that no rank waits any more")
