"""Collects the stacks of all ranks when one hangs: of this node, and of the nodes that answer in time."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ma_boot.errors import described
from ma_boot.node.observe.collectives.dump_files import DIRECTORY, Question
from ma_boot.node.observe.collectives.ras import ask_ras
from ma_boot.node.observe.collectives.records import RankRecord, with_place
from ma_boot.node.observe.peers import LOOKING, REPORT, STACKS, PeerMessage, Peers
from ma_boot.node.observe.rank_stacks.rank_processes import RankProcess
from ma_boot.node.observe.rank_stacks.sampled_stacks import look_seconds, sample_again
from ma_boot.node.observe.rank_stacks.stack_samples import MOVES, UNKNOWN as UNKNOWN_PROGRESS, WAITS
from ma_boot.node.observe.rank_stacks.stack_tools import stacks_of, state_of
from ma_boot.node.observe.rank_stacks.stacks import RankAtHang, activity, threads_of, without_helper
from ma_boot.node.observe.rank_stacks.stacks_messages import encode_ranks, encode_report
from ma_boot.node.observe.rank_stacks.stacks_protocol import OWN_SECONDS, StacksExchange
from ma_boot.node.observe.rank_stacks.stacks_report import LONGEST_STACK, StacksReport
from ma_boot.node.observe.rank_stacks.suspect import waited_for
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.task import Task

# Seconds; a rank that was active so recently may be at work, at most: half of a longer timeout says little.
BUSY_SECONDS = 30.0


class OwnStacks(NamedTuple):
    """Stacks of this node: of its ranks, and of processes that are no rank, by label; their progress."""

    ranks: list[RankAtHang]
    unranked: list[tuple[str, str]]
    progress: list[str]


class StackLook(NamedTuple):
    """Processes whose stacks are taken several times within `seconds`, since they may be at work.

    These are all ranks if they have missed their steps or their output (`is_all`), else those that were
    active in the last `busy` seconds. Those that are `stepping`, by their labels, make progress in any case.
    """

    seconds: float = 0.0
    busy: float = 0.0
    is_all: bool = False
    stepping: frozenset[str] = frozenset()

    @classmethod
    def of(cls, timeout: float, is_all: bool, stepping: frozenset[str]) -> StackLook:
        """Returns the look of a node with this timeout for hangs; infinite without a detection.

        Without a timeout nothing has been measured, so no process is known to be active.
        """
        busy = min(BUSY_SECONDS, timeout / 2) if math.isfinite(timeout) else 0.0
        return cls(look_seconds(timeout), busy, is_all, stepping)

    def takes(self, quiet: float) -> bool:
        """Returns whether a process is one of them, after so many `quiet` seconds."""
        return self.is_all or quiet < self.busy


NO_LOOK = StackLook()


class StacksRound:
    """Collection of stacks in progress: starts a thread, sends and receives messages.

    `quiet` are the seconds without activity by process. `state` decides (see `stacks_protocol`).

    Raises:
        RuntimeError: the limit of threads.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        quiet: Mapping[int, float],
        peers: Peers,
        inbox: SignalInbox,
        *,
        look: StackLook = NO_LOOK,
    ):
        running = [worker for worker in workers if worker.exit is None]
        ended = [worker for worker in workers if worker.exit is not None]
        is_looking = any(look.takes(quiet.get(worker.pid, 0.0)) for worker in running)
        others = frozenset(peers.others)
        self.state = StacksExchange(
            peers.node, time.monotonic(), others, is_look=look.is_all, looking=is_looking
        )
        if is_looking:
            peers.tell(LOOKING, {})
        self._peers = peers
        self._own = OwnStacks([], [], [])
        self._labels = [worker.spec.label for worker in running]
        self._task = Task(
            "stacks",
            lambda cancel: own_stacks(running, ended, quiet, node=peers.node, look=look, cancel=cancel),
            inbox,
        )

    def receive(self, message: PeerMessage) -> None:
        """Adds a message of a peer."""
        self.state = self.state.received(message, self._peers)

    def patience(self) -> float:
        """Seconds until `finished` should be called, at the latest."""
        return self.state.patience(time.monotonic())

    def finished(self) -> bool:
        """Sends the own stacks once they are known; returns whether the collection has ended."""
        if not self.state.own_done and (self._task.finished or self.patience() == 0):
            no_stacks = [(", ".join(self._labels), f"no stacks within {OWN_SECONDS:.0f} s")]
            self._own = self._task.result() if self._task.finished else OwnStacks([], no_stacks, [])
            self.state = self.state.with_own(self._own.ranks)
            if self._peers.node:
                self._peers.tell(STACKS, encode_ranks(self._own.ranks))
        return self.state.is_finished(time.monotonic(), self._peers.unreached)

    def report(self) -> tuple[list[str], StacksReport]:
        """Returns the lines for people and the conclusion, which node 0 also sends to its peers."""
        report = self.state.conclusion(self._peers.unreached)
        if self.state.report is None and not self._peers.node:
            self._peers.tell(REPORT, encode_report(report))
        return report.lines(self._own.unranked), report

    @property
    def progress_of_unranked(self) -> Sequence[str]:
        """The progress of processes of this node that are no rank."""
        return self._own.progress


def own_stacks(
    running: Sequence[Worker],
    ended: Sequence[Worker],
    quiet: Mapping[int, float],
    *,
    node: int,
    look: StackLook,
    cancel: threading.Event,
) -> OwnStacks:
    """Reads the stacks of this node's processes; ended ranks are added with their exit codes."""
    processes = [
        process for worker in running for process in RankProcess.all_of(worker, quiet.get(worker.pid, 0.0))
    ]
    # Before and after the stacks are read: py-spy stops a process meanwhile.
    before = [state_of(process.pid) for process in processes]
    question = Question.ask(
        {process.rank: (process.pid, process.environ) for process in processes if process.rank is not None}
    )
    texts, progress = _stacks_and_progress(processes, look, cancel)
    texts = [without_helper(text) for text in texts]
    states = [state if state_of(process.pid) == state else "" for process, state in zip(processes, before)]
    answers = question.answers(cancel)
    own = OwnStacks([], _ras_report(processes), [])
    for process, state, text in zip(processes, states, texts):
        if process.rank is None:
            own.unranked.append((process.label, text))
            own.progress.append(progress.get(process.pid, UNKNOWN_PROGRESS))
            continue
        own.ranks.append(
            RankAtHang(
                process.rank,
                node,
                text[:LONGEST_STACK],
                quiet=round(process.quiet, 1),
                waits_for=waited_for(process.logged(), process.rank),
                state=state,
                printed=round(process.printed, 1),
                progress=progress.get(process.pid, UNKNOWN_PROGRESS),
                record=_with_place(answer.record, text) if (answer := answers.get(process.rank)) else None,
            )
        )
    for worker in ended:
        if worker.spec.rank is not None and worker.exit is not None:
            own.ranks.append(RankAtHang(worker.spec.rank, node, ended=worker.exit.code))
    known = {rank.rank for rank in own.ranks}
    for started in (rank for worker in running for rank in worker.started_ranks if rank.has_ended):
        if started.rank not in known:
            own.ranks.append(RankAtHang(started.rank, node, ended=started.code))
    return own


def _ras_report(processes: Sequence[RankProcess]) -> list[tuple[str, str]]:
    """Returns the report of NCCL's RAS with its heading, for ranks of `--rendezvous torch`."""
    environ = next((process.environ for process in processes if DIRECTORY in process.environ), None)
    report = ask_ras(environ) if environ is not None else ""
    return [("NCCL RAS", report)] if report else []


def _with_place(record: RankRecord | None, stack: str) -> RankRecord | None:
    """Adds the training's line to the collective in which a rank waits, by its stack."""
    by = activity(threads_of(stack)).by
    return record if record is None or by is None else with_place(record, by.place)


def _stacks_and_progress(
    processes: Sequence[RankProcess], look: StackLook, cancel: threading.Event
) -> tuple[list[str], dict[int, str]]:
    """Returns the stacks of processes, and the progress of those of the look by their pids."""
    # The output of a launcher does not show which of its ranks has made a step.
    steps = {
        process.pid: MOVES
        for process in processes
        if process.label in look.stepping and process.output is not None
    }
    try:
        texts = stacks_of(processes)
        again = [at for at, process in enumerate(processes) if look.takes(process.quiet)]
        looked = [processes[at] for at in again]
        found = sample_again(looked, [texts[at] for at in again], look.seconds, cancel) if looked else []
    except Exception as error:  # the hang is reported even if the stacks cannot be read
        return [f"no stacks: {described(error)}"] * len(processes), steps
    # A process that uses no CPU waits, whatever its stacks are.
    progress_by_stacks = {
        process.pid: WAITS if progress != MOVES and process.quiet >= look.busy else progress
        for process, progress in zip(looked, found)
    }
    return texts, {**progress_by_stacks, **steps}
