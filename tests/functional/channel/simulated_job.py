"""A job of many nodes in one process: real channels, real detectors and real folding, one of each for each node.

What is simulated: the ranks. They are no processes; in place of py-spy's answer they have stacks that py-spy has
recorded of a real job (PyTorch with Gloo, four ranks) in the same kind of hang, in `stacks`.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from ma_boot.node.observe.hangs.hang_detector import HangDetector, HangOptions
from ma_boot.node.observe.metrics.output_reader import OutputReader
from ma_boot.node.observe.rank_stacks.rank_processes import RankProcess
from ma_boot.node.peers.job_peers import JobPeers
from ma_boot.node.supervisor.supervise import Observer
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.platform.modelarts.job import JobEnvironment, read_job
from ma_boot.platform.modelarts.network import free_port
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.console import Console
from ma_boot.report.exit_report import Ending
from ma_boot.report.journal import Journal
from ma_boot.report.result import RunResult, WorkerExit
from tests.functional.channel.nodes import TOKEN
from tests.functional.node import eventually

STACKS = {file.stem: file.read_text() for file in (Path(__file__).parent / "stacks").glob("*.txt")}
KINDS = ("deadlock", "loader", "torchloader", "swapped", "save", "dead node", "late exception")
FIRST_PID = 50_000_000  # above what Linux gives to a process
TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 1, in <module>\n{}\n'
RESET = TRACEBACK.format(
    "RuntimeError: [gloo/transport/tcp/pair.cc:525] Read error: Connection reset by peer"
)


class Case(NamedTuple):
    """One failure or hang: `ranks` are those that may be named."""

    seed: int
    kind: str
    nodes: int
    each: int
    node: int
    ranks: Sequence[int]


def case(seed: int) -> Case:
    """The case of a seed: every kind comes in turn, all else is chance."""
    chance = random.Random(seed)
    nodes, each = chance.choice([4, 5, 8, 12, 16, 24, 32]), chance.choice([2, 4, 8])
    kind = KINDS[seed % len(KINDS)]
    odd = chance.sample(range(nodes * each), 2)
    ranks = sorted(odd) if kind == "deadlock" else odd[:1]
    return Case(seed, kind, nodes, each, ranks[0] // each, ranks)


class SimulatedNodes:
    """The nodes of a case, which have all heard of each other."""

    def __init__(self, case: Case, place: Path, inbox: SignalInbox) -> None:
        self.case = case
        self.jobs: list[JobEnvironment] = []
        self.peers: list[JobPeers] = []
        self.journals: list[EventList] = []
        port = free_port()
        hosts = ",".join(f"127.78.{node // 250}.{node % 250 + 1}" for node in range(case.nodes))
        for node in range(case.nodes):
            environ = {
                "MA_NUM_HOSTS": str(case.nodes), "VC_TASK_INDEX": str(node), "VC_WORKER_HOSTS": hosts,
                "MA_VJ_NAME": f"ma-job-{case.seed}", "HOME": str(place),
            }  # fmt: skip
            self.journals.append(EventList())
            self.jobs.append(read_job(environ, "host"))
            self.peers.append(JobPeers(TOKEN, inbox, self.journals[-1]))
            self.peers[-1].open(self.jobs[-1], port)
        eventually(
            lambda: self.peers[0].connected == set(range(1, case.nodes)), "all nodes are connected", 20
        )

    def close(self) -> None:
        """Ends all channels."""
        for peers in self.peers:
            peers.__exit__()

    def workers(self, node: int) -> list[Any]:
        """The ranks of a node, as the detector sees them."""
        ranks = range(node * self.case.each, (node + 1) * self.case.each)
        return [
            SimpleNamespace(
                pid=FIRST_PID + rank, exit=None, started_ranks=[], ends=list,
                spec=SimpleNamespace(rank=rank, local_rank=rank % self.case.each, label=f"rank {rank}", environ={}),
                output=SimpleNamespace(
                    last_output=time.monotonic(), tail=lambda: "", since=lambda position: (0, b"", 0.0)
                ),
            )
            for rank in ranks
        ]  # fmt: skip

    def stacks_of(self, processes: Sequence[RankProcess]) -> list[str]:
        """In place of py-spy: what it has recorded of a rank in this kind of hang."""
        chance = random.Random(self.case.seed)
        usual = "usual-swapped" if self.case.kind == "swapped" else "usual"
        stacks = []
        for process in processes:
            odd = process.pid - FIRST_PID in self.case.ranks and self.case.kind != "dead node"
            name = self.case.kind if odd else f"{usual}-{chance.choice('023')}"
            stacks.append(STACKS[name].replace("4711", str(process.pid)))
        return stacks

    def hang(self, inbox: SignalInbox) -> list[dict[str, Any] | None]:
        """The suspect that each node names, after one of them has found its ranks hanging."""
        alive = [
            node
            for node in range(self.case.nodes)
            if not (self.case.kind == "dead node" and node == self.case.node)
        ]
        if self.case.kind == "dead node":
            self.peers[self.case.node].__exit__()
        observers: list[tuple[Observer, list[Worker]]] = []
        for node in alive:
            timeout = 0.05 if node == alive[self.case.seed % len(alive)] else None
            journal = self.journals[node]
            output = OutputReader((), journal.warn)
            detector = HangDetector(
                HangOptions(timeout), inbox, journal, peers=self.peers[node], output=output
            )
            workers = self.workers(node)
            observers += [(self.peers[node], workers), (detector, workers)]
        until = time.monotonic() + 30
        while any(not self.journals[node].of("stacks") for node in alive) and time.monotonic() < until:
            for observer, workers in observers:
                observer.check(workers, False)
            time.sleep(0.005)
        for observer, _ in observers[1::2]:
            observer.close()
        return [self.journals[node].of("stacks")[0]["suspect"] for node in alive]

    def fail(self) -> list[str | None]:
        """The cause that each node names: a rank has raised, but ended after those that lost it.

        These are told at once, and all nodes end three seconds later: a stop takes its time.
        """
        causes: list[str | None] = [None] * self.case.nodes
        now = time.monotonic_ns()

        def end(node: int) -> None:
            chance = random.Random(self.case.seed * 1000 + node)
            exits = []
            for rank in range(node * self.case.each, (node + 1) * self.case.each):
                raised = rank in self.case.ranks
                lost = not raised and chance.random() < 0.5
                output = TRACEBACK.format(f"ValueError: in {rank}") if raised else RESET if lost else ""
                code, stopped = (1, False) if lost or raised else (143, True)
                at = now - int(1e9) if lost else now
                exits.append(
                    WorkerExit(f"rank {rank}", rank, 0, 1, code, None, at, 9.0, stopped, "log", output)
                )
            failed = [exit for exit in exits if exit.code == 1]
            ended = [cast(Worker, SimpleNamespace(exit=exit, ends=partial(list, [exit]))) for exit in failed]
            until = time.monotonic() + 3 + chance.random() * 0.2
            while time.monotonic() < until:
                self.peers[node].check(ended, False)
                time.sleep(0.02)
            stops = [] if any(not exit.stopped for exit in exits) else [signal.SIGTERM]  # by the platform
            ending = Ending.of(self.jobs[node], stops, None, RunResult(tuple(exits)), None)
            cause, _ = self.peers[node].root_cause(ending)
            causes[node] = None if cause is None else str(cause)

        threads = [threading.Thread(target=end, args=(node,)) for node in range(self.case.nodes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return causes


class EventList(Journal):
    """A journal that keeps its events, and prints nothing."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def say(self, text: str) -> None:
        """Prints nothing."""

    def event(self, kind: str, **fields: Any) -> None:
        """Keeps the event."""
        self.events.append({"kind": kind, **fields})

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The events of a kind."""
        return [event for event in self.events if event["kind"] == kind]


@contextmanager
def simulated(case: Case, place: Path) -> Iterator[SimulatedNodes]:
    """The nodes of a case."""
    with SignalInbox() as inbox:
        nodes = SimulatedNodes(case, place, inbox)
        try:
            yield nodes
        finally:
            nodes.close()


__all__ = ["Case", "Console", "SimulatedNodes", "case", "simulated"]
