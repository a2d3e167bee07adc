"""Detects idle ranks (no output, CPU, device or I/O activity) and collects their stacks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ma_boot.node.observe.hang_state import HangState
from ma_boot.node.observe.peers import ENDED, REPORT, STACKS, PeerMessage, Peers
from ma_boot.node.observe.worker_activity import WorkerActivity
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.journal import Journal
from ma_boot.report.result import HangSuspect
from ma_boot.wording import Message

if TYPE_CHECKING:
    from ma_boot.node.observe.stacks_round import StacksRound

# seconds between two checks of a round: peers may become unreachable meanwhile, which wakes no inbox
ROUND_SECONDS = 1.0
# Share of the time between two checks for which the devices are read: the result is there at the next check.
DEVICES_SHARE = 0.8


class HangDetector:
    """Observer that looks for workers idle for `timeout` seconds, and collects the stacks of all ranks then.

    Without a timeout it only answers peers. Each worker is reported once. With the action `stop`, a report
    ends the run, and `hung` has the labels of the workers. `state` decides (see `hang_state`); this class
    measures, exchanges messages and writes the journal.
    """

    without = "hangs are no longer detected"

    def __init__(
        self, timeout: float | None, action: str, inbox: SignalInbox, journal: Journal, peers: Peers
    ) -> None:
        self.hung: tuple[str, ...] = ()
        self.suspect: HangSuspect | None = None
        self.state = HangState.initial(timeout, time.monotonic())
        self.activity = WorkerActivity(inbox)
        self._action = action
        self._inbox = inbox
        self._journal = journal
        self._peers = peers
        self._round: StacksRound | None = None
        self._labels: list[str] = []  # of this node's workers for which the round was started
        # The last messages of each peer, also from before the round: an ended peer sends no stacks.
        self._stacks: dict[int, PeerMessage] = {}
        self._ended: dict[int, PeerMessage] = {}

    def close(self) -> None:
        """Ends a running device tool."""
        self.activity.close()

    def patience(self) -> float:
        """Returns the seconds until `check` should be called; messages of peers wake the inbox."""
        if self._round is not None:
            return min(ROUND_SECONDS, self._round.patience())
        return max(0.0, self.state.next_check - time.monotonic())

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Reports hanging workers; returns the reason to end the run, or an empty text."""
        messages = self._peers.heard()
        if stopping:
            return ""
        for message in messages:
            self._receive(message, workers)
        labels = self.find_hangs(workers)
        if not labels or self._action != "stop":
            return ""
        self.hung = tuple(labels)
        return Message.of("{} hung for {} s", ", ".join(labels), f"{self.state.timeout:.0f}")

    def find_hangs(self, workers: Sequence[Worker]) -> list[str]:
        """Returns the labels of newly hanging workers, once their stacks have been printed; mostly none."""
        if self._round is not None:
            return self._finish_round(self._round) if self._round.finished() else []
        now = time.monotonic()
        if now < self.state.next_check:
            return []
        hanging = self._measure(_watched(workers), now)
        self.state, judgement = self.state.judged([worker.pid for worker in hanging], now)
        new = [worker.spec.label for worker in hanging if worker.pid in judgement.new]
        if not new:
            return []
        self._journal.warn(f"{', '.join(new)}: no output and no CPU time for {self.state.timeout:.0f} s")
        if not judgement.collect:
            self._journal.event("hang", labels=new)
            return new
        self._peers.tell("hanging", {"labels": new})
        return self._start_round(new, workers)

    def _measure(self, running: Sequence[Worker], now: float) -> list[Worker]:
        """Updates the state; returns the workers that were idle for the whole timeout."""
        self.state = self.state.checked(self.activity.measure(running), now)
        quiet = self._idle_for(self.state.interval, running, now)
        self.state = self.state.seen_alive(self.activity.find_life(quiet))
        # Reading the devices costs CPU time, so it begins at half the timeout.
        long_quiet = self._idle_for(self.state.timeout / 2, quiet, now)
        self.activity.read_devices(long_quiet, self.state.interval * DEVICES_SHARE)
        idle = self._idle_for(self.state.timeout, running, now)
        return [worker for worker in idle if not self.activity.is_undecided(worker)]

    def _idle_for(self, seconds: float, workers: Sequence[Worker], now: float) -> list[Worker]:
        return [worker for worker in workers if self.state.idle_seconds(worker.pid, now) >= seconds]

    def _receive(self, message: PeerMessage, workers: Sequence[Worker]) -> None:
        """Processes a message about a hang; other kinds are ignored."""
        if message.kind in (STACKS, REPORT, ENDED):
            latest = self._ended if message.kind == ENDED else self._stacks
            latest[message.node] = message
            if self._round is not None:
                self._round.receive(message)
        elif message.kind != "hanging" or self._round is not None:
            return
        elif self.state.may_collect(time.monotonic()):
            self._journal.say("ranks hang on another node: collecting the stacks of this node")
            if not self._peers.node:
                # The leader passes the request on: the nodes are connected to the leader only.
                self._peers.tell("hanging", {})
            self._start_round([], workers)

    def _start_round(self, labels: list[str], workers: Sequence[Worker]) -> list[str]:
        """Starts to collect stacks; returns the labels to report at once if no thread can be started."""
        from ma_boot.node.observe.stacks_round import StacksRound  # few jobs hang

        now = time.monotonic()
        active = {pid: activity.when for pid, activity in self.state.activities.items()}
        quiet = {worker.pid: now - active.get(worker.pid, worker.output.last_output) for worker in workers}
        self._labels = labels
        try:
            self._round = StacksRound(workers, quiet, self._peers, self._inbox)
        except RuntimeError as error:  # the limit of threads
            self._journal.warn(f"no stacks: {error}")
            self._journal.event("hang", labels=labels)
            return labels
        for message in (*self._ended.values(), *self._stacks.values()):
            self._round.receive(message)
        return []

    def _finish_round(self, done: StacksRound) -> list[str]:
        """Prints and records the result; returns the labels of workers that hang."""
        self._round = None
        self._stacks.clear()
        lines, report = done.report()
        ranks_at_work = bool(report.working)
        self.state = self.state.collected(done.state.began, time.monotonic(), ranks_at_work)
        self.suspect = report.suspect
        for line in lines:
            self._journal.say(line)
        labels = [] if ranks_at_work else self._labels
        if labels:
            self._journal.event("hang", labels=labels)
        self._journal.event("stacks", **report.fields())
        return labels


def _watched(workers: Sequence[Worker]) -> list[Worker]:
    """Returns the running workers that may hang: ranks, or all workers if none is a rank.

    MindSpore's scheduler is no rank; it is idle as long as the ranks train.
    """
    ranks = [worker for worker in workers if worker.spec.rank is not None]
    return [worker for worker in ranks or workers if worker.exit is None]
