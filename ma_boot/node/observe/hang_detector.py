"""Detects processes that neither print nor use CPU time, nor their card, nor move data; gets their stacks."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from threading import Event
from typing import NamedTuple

from ma_boot.node.observe.metrics.card_tables import is_busy
from ma_boot.node.observe.metrics.cards import CardTools
from ma_boot.node.observe.peers import PeerMessage, Peers
from ma_boot.node.observe.stacks_round import StacksRound
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.cpu_meter import CpuMeter, ProcessUsage, io_counters, process_usages, runnable_seconds
from ma_boot.processes.orphan_guard import MARKER_VARIABLE, processes_with
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.sockets import socket_bytes, sockets_of
from ma_boot.processes.task import Task
from ma_boot.report.journal import Journal
from ma_boot.report.result import HangSuspect
from ma_boot.wording import Message

CHECKS = 8  # within the timeout
LONGEST_INTERVAL = 30.0  # seconds
ROUND_SECONDS = 1.0  # while others may turn out not to answer
CARDS_SHARE = 0.8  # of the time between two checks, so that it is over at the next one
ROUND_PAUSE = 60.0  # after stacks were taken: py-spy stops a process for a moment
IDLE_SHARE = 0.05  # of a core: a process that only polls, 100 times a second, stays below on a slow machine
UNSURE_TICKS = 2  # the kernel counts CPU time in whole ticks, for the program and for its calls apart
_TICK = 1 / os.sysconf("SC_CLK_TCK")  # seconds


class LastActivity(NamedTuple):
    """When a worker was last active (monotonic, seconds), and the CPU seconds of its `CpuMeter` by then.

    `checked` is when it was last checked, `used` the CPU seconds by then.
    """

    when: float
    cpu: float
    checked: float
    used: float

    def updated(self, now: float, cpu: float, last_output: float) -> LastActivity:
        """The activity by now, from the CPU seconds and the time of the last output.

        Who works for a moment only is active too: so the share of a core since the last look counts as well.
        """
        if _works(cpu - self.cpu, now - self.when) or _works(cpu - self.used, now - self.checked):
            return LastActivity(now, cpu, now, cpu)
        if last_output > self.when:
            return LastActivity(last_output, cpu, now, cpu)
        return self._replace(checked=now, used=cpu)


def _works(cpu: float, seconds: float) -> bool:
    return cpu - UNSURE_TICKS * _TICK > IDLE_SHARE * seconds


class HangDetector:
    """Looks for workers that were inactive for `timeout` seconds, and takes all stacks then; an `Observer`.

    Without a timeout it does not look. A worker is reported once; with the action `stop` that ends the run,
    of which the hanging workers are `hung` then.
    """

    without = "hangs are no longer detected"

    def __init__(
        self, timeout: float | None, action: str, inbox: SignalInbox, journal: Journal, peers: Peers
    ) -> None:
        self.hung: tuple[str, ...] = ()
        self._action = action
        self._timeout = math.inf if timeout is None else timeout
        self._interval = min(LONGEST_INTERVAL, timeout / CHECKS) if timeout else math.inf
        self._inbox = inbox
        self._journal = journal
        self._peers = peers
        self._activities: dict[int, LastActivity] = {}
        self._meters: dict[int, CpuMeter] = {}
        self._life: QuietLife | None = None  # once a worker is quiet
        self._known: list[int] = []
        self._hung: list[str] = []
        self._round: StacksRound | None = None
        self._last_round = -math.inf
        self._waits = False  # by the last round, for ranks that are at work
        self._stacks: dict[int, PeerMessage] = {}
        self._ended: dict[int, PeerMessage] = {}
        self.suspect: HangSuspect | None = None
        self._next = time.monotonic() + self._interval

    def close(self) -> None:
        """Ends the look at the cards."""
        if self._life is not None:
            self._life.close()

    def patience(self) -> float:
        """Seconds until `check` should be called; what arrives meanwhile wakes the inbox."""
        if self._round is not None:
            return min(ROUND_SECONDS, self._round.patience())
        return max(0.0, self._next - time.monotonic())

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Reports workers that hang, and says so if that is to end the run."""
        messages = self._peers.heard()
        if stopping:
            return ""
        for message in messages:
            self._take(message, workers)
        labels = self.hanging(workers)
        if not labels or self._action != "stop":
            return ""
        self.hung = tuple(labels)
        return Message.of("{} hung for {} s", ", ".join(labels), f"{self._timeout:.0f}")

    def hanging(self, workers: Sequence[Worker]) -> list[str]:
        """The labels of workers that hang, once their stacks have been printed; mostly none."""
        if self._round is not None:
            return self._reported(self._round) if self._round.finished() else []
        now = time.monotonic()
        if now < self._next:
            return []
        self._next = now + self._interval
        running = _watched(workers)
        self._measure(running, now)
        self._check_quiet([worker for worker in running if self._quiet(worker, now) >= self._interval], now)
        hung = [worker for worker in running if self._hangs(worker, now)]
        new = [worker.spec.label for worker in hung if worker.pid not in self._known]
        self._known = [worker.pid for worker in hung]
        pause = max(ROUND_PAUSE, self._timeout) if self._waits else ROUND_PAUSE
        pausing = now < self._last_round + pause
        if pausing and self._waits:
            self._known = []
        if not new or (pausing and self._waits):
            return []
        self._journal.warn(f"{', '.join(new)}: no output and no CPU time for {self._timeout:.0f} s")
        if pausing:  # another node has asked for the stacks just now
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
            self._activities[worker.pid] = before.updated(now, used, worker.output.last_output)

    def _adopt(self, running: Sequence[Worker], processes: Mapping[int, ProcessUsage]) -> None:
        """Counts orphans in sessions of their own: by the LOCAL_RANK that they have inherited.

        What ma_boot has started itself, such as the tools of the cards, does not have its marker.
        """
        own = os.getpid()
        known = {pid for meter in self._meters.values() for pid in meter.members} | set(self._meters)
        orphans = [
            pid
            for pid, usage in processes.items()
            if usage.parent == own and pid not in known and usage.session not in known
        ]
        marked = [pid for pid, marker in processes_with(MARKER_VARIABLE, orphans) if f":{own}:" in marker]
        ranks = dict(processes_with("LOCAL_RANK", marked))
        owners = {worker.spec.environ.get("LOCAL_RANK"): worker for worker in running}
        for pid in marked:
            owner = owners.get(ranks.get(pid)) or (running[0] if len(running) == 1 else None)
            if owner is not None:
                self._meters[owner.pid].adopt(pid, processes[pid])

    def _check_quiet(self, quiet: Sequence[Worker], now: float) -> None:
        """Looks whether workers that neither print nor use CPU time show life otherwise."""
        if not quiet:
            return
        self._life = self._life or QuietLife(self._inbox)
        self._life.check_data({worker.pid: self._meters[worker.pid].members for worker in quiet})
        for worker in quiet:
            before = self._activities[worker.pid]
            self._activities[worker.pid] = before._replace(
                when=max(before.when, self._life.last_seen(worker))
            )
        long_quiet = [worker for worker in quiet if self._quiet(worker, now) >= self._timeout / 2]
        self._life.check_cards(long_quiet, self._interval * CARDS_SHARE)

    def _hangs(self, worker: Worker, now: float) -> bool:
        is_quiet = self._quiet(worker, now) >= self._timeout
        return is_quiet and not (self._life is not None and self._life.cannot_tell(worker))

    def _quiet(self, worker: Worker, now: float) -> float:
        return now - self._activities[worker.pid].when

    def _take(self, message: PeerMessage, workers: Sequence[Worker]) -> None:
        """Takes a message about a hang; any other is disregarded."""
        if message.kind in ("stacks", "verdict", "ended"):
            kept = self._ended if message.kind == "ended" else self._stacks
            kept[message.node] = message
            if self._round is not None:
                self._round.receive(message)
        elif message.kind != "hanging" or self._round is not None:
            return
        elif time.monotonic() >= self._last_round + ROUND_PAUSE:
            self._journal.say("ranks hang on another node: taking the stacks of this node's")
            if not self._peers.node:
                self._peers.tell("hanging", {})
            self._ask([], workers)

    def _ask(self, labels: list[str], workers: Sequence[Worker]) -> list[str]:
        now = time.monotonic()
        active = {pid: activity.when for pid, activity in self._activities.items()}
        quiet = {worker.pid: now - active.get(worker.pid, worker.output.last_output) for worker in workers}
        self._hung = labels
        try:
            self._round = StacksRound(workers, quiet, self._peers, self._inbox)
            for message in (*self._ended.values(), *self._stacks.values()):
                self._round.receive(message)
        except RuntimeError as error:  # the limit of threads
            self._journal.warn(f"no stacks: {error}")
            self._journal.event("hang", labels=labels)
            return labels
        return []

    def _reported(self, done: StacksRound) -> list[str]:
        self._round, self._last_round = None, time.monotonic()
        self._stacks.clear()
        lasted = self._last_round - done.began  # nobody was checked meanwhile
        self._activities = {
            pid: activity._replace(when=activity.when + lasted) for pid, activity in self._activities.items()
        }
        lines, event = done.report()
        self.suspect = HangSuspect(**event["suspect"]) if event["suspect"] else None
        for line in lines:
            self._journal.say(line)
        self._waits = bool(event["working"])
        if self._waits:  # nobody hangs: they are checked again after a while
            self._hung, self._known = [], []
        if self._hung:
            self._journal.event("hang", labels=self._hung)
        self._journal.event("stacks", **event)
        return self._hung


def _watched(workers: Sequence[Worker]) -> list[Worker]:
    """The running workers that may hang: MindSpore's scheduler waits for the ranks as long as they train."""
    ranks = [worker for worker in workers if worker.spec.rank is not None]
    return [worker for worker in ranks or workers if worker.exit is None]


END_SECONDS = 0.5
RUNNABLE_SHARE = 0.8  # of the time: who polls waits for a core now and then only
LIVELY_BYTES = 1 << 16  # a second: what polls a file or /proc, or logs its heartbeat, moves less
SHORTEST_PAUSE = 1.0  # seconds between two looks at the cards
ANSWERS = 8  # within the seconds, where they are few
IDLE_ANSWERS = 48  # in a row: of a card that computes in every seventh look, 32 were idle once in 60 timeouts
WORK_PAUSE = 3.0  # times what the tool took: it uses CPU time
# Of files, pipes and terminals; and of storage, for mapped files, and for calls that last.
_MOVED = ("rchar", "wchar", "read_bytes", "write_bytes")


class QuietLife:
    """Looks at what quiet workers do; nothing of it is loaded before one is quiet."""

    def __init__(self, inbox: SignalInbox) -> None:
        self._inbox = inbox
        self._moved: dict[int, float] = {}  # when a worker was last seen to read or write
        # By worker: when it was counted, what its processes had moved, how long its threads were runnable.
        self._counted: dict[int, tuple[float, dict[str, int], dict[str, float]]] = {}
        self._tools: CardTools | None = None
        self._task: Task[list[tuple[float, set[int]]]] | None = None
        self._busy: dict[int, float] = {}  # when a card was last seen to compute
        self._answers: deque[float] = deque(maxlen=IDLE_ANSWERS)  # when the tool of the cards has answered

    def close(self) -> None:
        """Ends the tool, if it is at work."""
        if self._task is not None:
            self._task.cancel()
            self._task.wait(lambda: None, time.monotonic() + END_SECONDS)

    def last_seen(self, worker: Worker) -> float:
        """When its card was last seen to compute, or the worker to move data; monotonic seconds, or -inf.

        A command that starts the ranks itself has all cards.
        """
        if self._task is not None and self._task.finished:
            task, self._task = self._task, None
            answers = task.result()
            for when, busy in answers:
                self._busy.update(dict.fromkeys(busy, when))
            if not answers:  # a tool that answers no more has nothing to say of who hangs
                self._answers.clear()
            self._answers.extend(when for when, _ in answers)
        moved = self._moved.get(worker.pid, -math.inf)
        if worker.spec.local_rank is None:
            return max([moved, *self._busy.values()])
        return max(moved, self._busy.get(_card_of(worker), -math.inf))

    def cannot_tell(self, worker: Worker) -> bool:
        """Whether the tool of the cards answers, but not yet often enough that the worker's is idle."""
        seen = self.last_seen(worker)
        return bool(self._answers) and sum(when > seen for when in self._answers) < IDLE_ANSWERS

    def check_data(self, quiet: Mapping[int, Collection[int]]) -> None:
        """Looks whether the processes of quiet workers have moved data since the last look, or wanted a core.

        `quiet` are the processes by the worker's pid.
        """
        now = time.monotonic()
        before, self._counted = self._counted, {}
        of_sockets = socket_bytes()
        for worker, members in quiet.items():
            moved = _moved_by(members, of_sockets)
            runnable = {thread: spent for pid in members for thread, spent in runnable_seconds(pid).items()}
            self._counted[worker] = now, moved, runnable
            if worker in before:
                then, moved_by_then, runnable_by_then = before[worker]
                size = sum(max(0, count - moved_by_then.get(name, count)) for name, count in moved.items())
                both = runnable.keys() & runnable_by_then.keys()
                longest = max((runnable[thread] - runnable_by_then[thread] for thread in both), default=0.0)
                if size > LIVELY_BYTES * (now - then) or longest > RUNNABLE_SHARE * (now - then):
                    self._moved[worker] = now

    def check_cards(self, quiet: Sequence[Worker], seconds: float) -> None:
        """Begins to look at the cards of these workers, unless the tool is still being asked.

        A card that computes is idle from time to time, so the tool is asked for so many `seconds`, until the
        card was seen to compute.
        """
        if self._task is None and quiet:
            environ = quiet[0].spec.environ
            wanted = {_card_of(worker) for worker in quiet if worker.spec.local_rank is not None}
            try:
                self._task = Task(
                    "cards", lambda cancel: self._busy_cards(environ, wanted, seconds, cancel), self._inbox
                )
            except RuntimeError:  # the limit of threads
                return

    def _busy_cards(
        self, environ: Mapping[str, str], wanted: set[int], seconds: float, cancel: Event
    ) -> list[tuple[float, set[int]]]:
        """When the tool has answered, and which cards computed then."""
        if self._tools is None:
            self._tools = CardTools(environ)
        until = time.monotonic() + seconds
        answers: list[tuple[float, set[int]]] = []
        busy: set[int] = set()
        while True:
            began = time.monotonic()
            cards = self._tools.read(cancel)
            if cards:
                answers.append((began, {card.card for card in cards if is_busy(card)}))
                busy |= answers[-1][1]
            now = time.monotonic()
            pause = max(min(SHORTEST_PAUSE, seconds / ANSWERS), WORK_PAUSE * (now - began))
            seen = wanted <= busy if wanted else bool(busy)
            if seen or now + pause > until or not self._tools.kind or cancel.wait(pause):
                return answers


def _moved_by(members: Iterable[int], of_sockets: Mapping[int, int]) -> dict[str, int]:
    """The bytes that these processes, and each of their sockets, have moved by now."""
    moved: dict[str, int] = {}
    for pid in members:
        counters = io_counters(pid)
        moved[f"process {pid}"] = sum(counters[name] for name in _MOVED if name in counters)
        moved.update(
            (f"socket {inode}", of_sockets[inode]) for inode in sockets_of(pid) if inode in of_sockets
        )
    return moved


def _card_of(worker: Worker) -> int:
    """The number of the worker's card in this container."""
    given = worker.spec.environ.get("ASCEND_DEVICE_ID", "")
    return int(given) if given.isdecimal() else worker.spec.local_rank or 0
