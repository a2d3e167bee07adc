"""Detects processes that neither print nor use CPU time, nor their card, nor move data; gets their stacks."""

from __future__ import annotations

import math
import os
import time
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence

from ma_boot.errors import described
from ma_boot.processes import (
    MARKER_VARIABLE,
    CpuMeter,
    ProcessUsage,
    SignalInbox,
    process_usages,
    processes_with,
)
from ma_boot.reporting import HangSuspect, Journal
from ma_boot.supervisor.peers import ALONE, PeerMessage, Peers
from ma_boot.supervisor.quiet_life import QuietLife
from ma_boot.supervisor.stacks_round import StacksRound
from ma_boot.supervisor.worker import Worker

CHECKS = 8  # within the timeout
LONGEST_INTERVAL = 30.0  # seconds
LOOK_SECONDS = 1.0  # while others may turn out not to answer
LOOKING = 0.8  # of the time between two checks, so that it is over at the next one
ROUND_PAUSE = 60.0  # after stacks were taken: py-spy stops a process for a moment
IDLE_SHARE = 0.05  # of a core: a process that only polls, 100 times a second, stays below on a slow machine
UNSURE_TICKS = 2  # the kernel counts CPU time in whole ticks, that of the program and that of its calls apart
_TICK = 1 / os.sysconf("SC_CLK_TCK")  # seconds


class LastActivity(NamedTuple):
    """When a worker was last active (monotonic, seconds), and the CPU seconds of its `CpuMeter` by then.

    `looked` is when it was last looked at, `used` the CPU seconds by then.
    """

    when: float
    cpu: float
    looked: float
    used: float

    def updated(self, now: float, cpu: float, heard: float) -> LastActivity:
        """The activity by now, from the CPU seconds and the time of the last output (`heard`).

        Who works for a moment only is active too: so the share of a core since the last look counts as well.
        """
        if _works(cpu - self.cpu, now - self.when) or _works(cpu - self.used, now - self.looked):
            return LastActivity(now, cpu, now, cpu)
        if heard > self.when:
            return LastActivity(heard, cpu, now, cpu)
        return self._replace(looked=now, used=cpu)


def _works(cpu: float, seconds: float) -> bool:
    return cpu - UNSURE_TICKS * _TICK > IDLE_SHARE * seconds


class HangDetector:
    """Looks for workers that were inactive for `timeout` seconds, and takes all stacks then.

    Without a timeout it does not look. A worker is reported once.
    """

    def __init__(
        self, timeout: Optional[float], inbox: SignalInbox, journal: Journal, peers: Peers = ALONE
    ) -> None:
        self._timeout = timeout
        self._inbox = inbox
        self._journal = journal
        self._peers = peers
        self._activities: Dict[int, LastActivity] = {}
        self._meters: Dict[int, CpuMeter] = {}
        self._life: Optional[QuietLife] = None  # once a worker is quiet
        self._known: List[int] = []
        self._found: List[str] = []
        self._round: Optional[StacksRound] = None
        self._last_round = -math.inf
        self._stacks: Dict[int, PeerMessage] = {}
        self._ended: Dict[int, PeerMessage] = {}
        self.suspect: Optional[HangSuspect] = None
        self._next = time.monotonic() + self._interval()

    def __enter__(self) -> HangDetector:
        return self

    def __exit__(self, *exc: object) -> None:
        """Ends the look at the cards."""
        if self._life is not None:
            self._life.close()

    def _interval(self) -> float:
        return min(LONGEST_INTERVAL, self._timeout / CHECKS) if self._timeout else math.inf

    def patience(self) -> float:
        """Seconds until `check` should be called; what arrives meanwhile wakes the inbox."""
        if self._round is not None:
            return min(LOOK_SECONDS, self._round.patience())
        return max(0.0, self._next - time.monotonic())

    def check(self, workers: Sequence[Worker]) -> List[str]:
        """The labels of workers that hang, once their stacks have been printed; mostly none.

        `workers` are all of the node, also those that have ended. An unexpected error is reported and ends
        the detection, never the training.
        """
        try:
            return self._check(workers)
        except Exception as error:
            self._give_up(error)
            return []

    def _give_up(self, error: Exception) -> None:
        self._timeout, self._round, self._next = None, None, math.inf
        self._journal.say(f"hangs are no longer detected: {described(error)}")

    def _check(self, workers: Sequence[Worker]) -> List[str]:
        if self._round is not None:
            return self._reported(self._round) if self._round.finished() else []
        now = time.monotonic()
        if self._timeout is None or now < self._next:
            return []
        self._next = now + self._interval()
        running = _watched(workers)
        self._measure(running, now)
        self._look_at_quiet(
            [worker for worker in running if self._quiet(worker, now) >= self._interval()], now
        )
        hung = [worker for worker in running if self._quiet(worker, now) >= self._timeout]
        new = [worker.spec.label for worker in hung if worker.pid not in self._known]
        self._known = [worker.pid for worker in hung]
        if not new:
            return []
        self._journal.say(f"{', '.join(new)}: no output and no CPU time for {self._timeout:.0f} s")
        if now < self._last_round + ROUND_PAUSE:  # another node has asked for the stacks just now
            self._journal.event("hang", labels=new)
            return new
        self._peers.tell("hanging", {"labels": new})
        return self._ask(new, workers)

    def _measure(self, running: Sequence[Worker], now: float) -> None:
        processes = process_usages()
        for worker in running:
            self._meters.setdefault(worker.pid, CpuMeter(worker.pid))
        self._adopt(running, processes)
        for worker in running:
            used = self._meters[worker.pid].measure(processes, os.getpid())
            before = self._activities.get(worker.pid, LastActivity(now, used, now, used))
            self._activities[worker.pid] = before.updated(now, used, worker.output.heard)

    def _adopt(self, running: Sequence[Worker], processes: Mapping[int, ProcessUsage]) -> None:
        """Counts orphans in sessions of their own: by the LOCAL_RANK that they have inherited.

        What ma_boot has started itself, such as the tools of the cards, does not have its marker.
        """
        own = os.getpid()
        known = {pid for meter in self._meters.values() for pid in meter.members} | set(self._meters)
        orphans = [
            pid
            for pid, one in processes.items()
            if one.parent == own and pid not in known and one.session not in known
        ]
        marked = [pid for pid, marker in processes_with(MARKER_VARIABLE, orphans) if f":{own}:" in marker]
        ranks = dict(processes_with("LOCAL_RANK", marked))
        owners = {worker.spec.environ.get("LOCAL_RANK"): worker for worker in running}
        for pid in marked:
            owner = owners.get(ranks.get(pid)) or (running[0] if len(running) == 1 else None)
            if owner is not None:
                self._meters[owner.pid].adopt(pid, processes[pid])

    def _look_at_quiet(self, quiet: Sequence[Worker], now: float) -> None:
        """Whether those that neither print nor use CPU time show life otherwise."""
        if not quiet or self._timeout is None:
            return

        self._life = self._life or QuietLife(self._inbox)
        self._life.look_at_data({worker.pid: self._meters[worker.pid].members for worker in quiet})
        for worker in quiet:
            before = self._activities[worker.pid]
            self._activities[worker.pid] = before._replace(
                when=max(before.when, self._life.last_seen(worker))
            )
        long_quiet = [worker for worker in quiet if self._quiet(worker, now) >= self._timeout / 2]
        self._life.look_at_cards(long_quiet, self._interval() * LOOKING)

    def _quiet(self, worker: Worker, now: float) -> float:
        return now - self._activities[worker.pid].when

    def hear(self, message: PeerMessage, workers: Sequence[Worker]) -> None:
        """Takes a message of another node about a hang; any other is disregarded. Fails as `check` does."""
        try:
            self._hear(message, workers)
        except Exception as error:
            self._give_up(error)

    def _hear(self, message: PeerMessage, workers: Sequence[Worker]) -> None:
        if message.kind in ("stacks", "ended"):
            kept = self._stacks if message.kind == "stacks" else self._ended
            kept[message.node] = message
            if self._round is not None:
                self._round.hear(message)
        elif message.kind != "hanging" or self._round is not None:
            return
        elif time.monotonic() >= self._last_round + ROUND_PAUSE:
            self._journal.say(f"ranks hang on node {message.node}: taking the stacks of this node's")
            self._ask([], workers)

    def _ask(self, found: List[str], workers: Sequence[Worker]) -> List[str]:
        now = time.monotonic()
        active = {pid: one.when for pid, one in self._activities.items()}
        quiet = {worker.pid: now - active.get(worker.pid, worker.output.heard) for worker in workers}
        self._found = found
        try:
            self._round = StacksRound(workers, quiet, self._peers, self._inbox)
            for message in (*self._ended.values(), *self._stacks.values()):
                self._round.hear(message)
        except RuntimeError as error:  # the limit of threads
            self._journal.say(f"no stacks: {error}")
            self._journal.event("hang", labels=found)
            return found
        return []

    def _reported(self, done: StacksRound) -> List[str]:
        self._round, self._last_round = None, time.monotonic()
        lasted = self._last_round - done.began  # nobody was looked at meanwhile
        self._activities = {
            pid: one._replace(when=one.when + lasted) for pid, one in self._activities.items()
        }
        lines, event = done.report()
        self.suspect = HangSuspect(**event["suspect"]) if event["suspect"] else None
        for line in lines:
            self._journal.say(line)
        if self._found:
            self._journal.event("hang", labels=self._found)
        self._journal.event("stacks", **event)
        return self._found


def _watched(workers: Sequence[Worker]) -> List[Worker]:
    """The running workers that may hang: MindSpore's scheduler waits for the ranks as long as they train."""
    ranks = [worker for worker in workers if worker.spec.rank is not None]
    return [worker for worker in ranks or workers if worker.exit is None]
