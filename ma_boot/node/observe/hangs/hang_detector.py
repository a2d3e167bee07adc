"""Detects ranks without life or progress, and collects the stacks of all ranks."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ma_boot.node.observe.hangs.hang_state import HangState
from ma_boot.node.observe.peers import ENDED, HANGING, LOOKING, REPORT, STACKS, STEPS, PeerMessage, Peers
from ma_boot.node.observe.worker_activity import WorkerActivity
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.journal import Journal
from ma_boot.report.result import HangSuspect
from ma_boot.wording import Message

if TYPE_CHECKING:
    from ma_boot.node.observe.hangs.progress_watch import ProgressWatch
    from ma_boot.node.observe.metrics.output_reader import OutputReader
    from ma_boot.node.observe.rank_stacks.stacks_report import StacksReport
    from ma_boot.node.observe.rank_stacks.stacks_round import StacksRound

# seconds between two checks of a round: peers may become unreachable meanwhile, which wakes no inbox
ROUND_SECONDS = 1.0
# Share of the time between two checks for which the devices are read: the result is there at the next check.
DEVICES_SHARE = 0.8
# Seconds after a hang was found in which ranks that lose their peers do so because it is stopped: the longest
# common stop time-out, and the time until a lost connection is noticed.
RECENT_SECONDS = 60.0
# A single native call, such as the compilation of a graph, may take long.
STAYS_BUSY = "the job goes on, despite --hang-action stop: its ranks use CPU, and none of them is suspected"


class HangOptions(NamedTuple):
    """Options of the detection: seconds (None: off), and `report` or `stop`."""

    timeout: float | None = None
    action: str = "report"


class _Question(NamedTuple):
    """Reason of a round: idle workers of this node by their labels, or why a look is due (`why`).

    `is_own` is false for the question of another node. A hang that the look finds `is_reported` once.
    """

    labels: Sequence[str] = ()
    why: str = ""
    is_own: bool = True
    is_reported: bool = True


class HangDetector:
    """Observer that looks for workers without life or progress, and collects the stacks of all ranks then.

    Without a timeout it only answers peers. Each worker is reported once. With the action `stop`, a report
    ends the run, and `hung` names the suspect. `state` decides on idle workers (see `hang_state`), and
    `progress` on those that use CPU (see `step_clock`); this class measures, exchanges messages and writes
    the journal.
    """

    without = "hangs are no longer detected"

    def __init__(
        self,
        options: HangOptions,
        inbox: SignalInbox,
        journal: Journal,
        *,
        peers: Peers,
        output: OutputReader,
    ) -> None:
        self.hung = ""
        self._suspected: tuple[float, HangSuspect | None] = (-math.inf, None)
        self.state = HangState.initial(options.timeout, time.monotonic())
        self.activity = WorkerActivity(inbox)
        self.progress = _progress_watch(options, output)
        self._options = options
        self._inbox = inbox
        self._journal = journal
        self._peers = peers
        self._round: StacksRound | None = None
        self._question = _Question()
        # The last messages of each peer, also from before the round: an ended peer sends no stacks.
        self._heard: dict[tuple[bool, int], PeerMessage] = {}

    @property
    def suspect(self) -> HangSuspect | None:
        """The suspect of the latest hang, on any node; None for one from which the job has recovered."""
        when, suspect = self._suspected
        return suspect if self.hung or time.monotonic() < when + RECENT_SECONDS else None

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
        if not labels or self._options.action != "stop":
            return ""
        # Never the rank that noticed: it waits for another one.
        alone = labels[0] if len(workers) == 1 and not self._peers.others else Message.of("the job")
        self.hung = str(self.suspect) if self.suspect is not None else alone
        return Message.of("{} hung for {} s", self.hung, f"{self.state.timeout:.0f}")

    def find_hangs(self, workers: Sequence[Worker]) -> list[str]:
        """Returns the labels of workers of a hang that ends the run, once their stacks are printed."""
        if self._round is not None:
            return self._finish_round(self._round, workers) if self._round.finished() else []
        now = time.monotonic()
        if now < self.state.next_check:
            return []
        watched = _watched(workers)
        hanging, spinning = self._measure(watched, now)
        self.state, judgement = self.state.judged([worker.pid for worker in hanging], now)
        new = [worker.spec.label for worker in hanging if worker.pid in judgement.new]
        if not new:
            why = self._overdue(watched, spinning, now)
            reports_next = self.progress is not None and self.progress.reports_next
            return self._start_round(_Question(why=why, is_reported=reports_next), workers) if why else []
        self._journal.warn(f"{', '.join(new)}: no output and no CPU time for {self.state.timeout:.0f} s")
        if not judgement.collect:
            self._journal.event("hang", labels=new)
            return new
        return self._start_round(_Question(new), workers)

    def _overdue(self, watched: Sequence[Worker], spinning: Sequence[Worker], now: float) -> str:
        if self.progress is None:
            return ""
        others = set(self._peers.others) - set(self._peers.unreached)
        return self.progress.overdue(watched, spinning, now, others=others)

    def _measure(self, running: Sequence[Worker], now: float) -> tuple[list[Worker], list[Worker]]:
        """Updates the state; returns the workers that were idle for the whole timeout.

        The second list are those of which nothing but CPU time was seen for the timeout.
        """
        known = self.state.activities.keys()
        self.state = self.state.checked(self.activity.measure(running), now)
        silent = [
            worker
            for worker in running
            if worker.pid in known
            and self.state.idle_seconds(worker.pid, now) <= 0
            and worker.output.last_output < now - self.state.timeout / 2
        ]
        if self.progress is not None and self.progress.read(running):
            self._peers.tell(STEPS, {})
        quiet = [*silent, *self._idle_for(self.state.interval, running, now)]
        self.state = self.state.seen_alive(self.activity.find_life(quiet))
        # Reading the devices costs CPU time, so it begins at half the timeout.
        long_quiet = [*silent, *self._idle_for(self.state.timeout / 2, running, now)]
        self.activity.read_devices(long_quiet, self.state.interval * DEVICES_SHARE)
        idle = self._idle_for(self.state.timeout, running, now)
        since = now - self.state.timeout
        spinning = [worker for worker in silent if self.activity.device_seen(worker) < since]
        return (
            [worker for worker in idle if not self.activity.is_undecided(worker)],
            [worker for worker in spinning if not self.activity.is_undecided(worker)],
        )

    def _idle_for(self, seconds: float, workers: Sequence[Worker], now: float) -> list[Worker]:
        return [worker for worker in workers if self.state.idle_seconds(worker.pid, now) >= seconds]

    def _receive(self, message: PeerMessage, workers: Sequence[Worker]) -> None:
        """Processes a message about a hang; other kinds are ignored."""
        kind = message.kind
        if kind in (STACKS, REPORT, ENDED):
            self._heard[kind == ENDED, message.node] = message
        if kind in (STACKS, REPORT, ENDED, LOOKING) and self._round is not None:
            self._round.receive(message)
        if kind == STEPS and self.progress is not None:
            self.progress.elsewhere.add(message.node)
        if kind in (LOOKING, STEPS):
            self._pass_on(kind, {})
        if kind == HANGING and self._round is None:
            self._answer(message, workers)

    def _answer(self, message: PeerMessage, workers: Sequence[Worker]) -> None:
        """Starts to collect stacks for another node; for an idle rank only some time after the last round."""
        is_look = bool(message.body.get("look"))
        if not is_look and not self.state.may_collect(time.monotonic()):
            return
        if not is_look:
            self._journal.say("ranks hang on another node: collecting the stacks of this node")
        self._pass_on(HANGING, message.body)
        why = Message.of("ranks of another node make no progress") if is_look else ""
        is_reported = message.body.get("report") is True
        self._begin(_Question((), why, is_own=False, is_reported=is_reported), workers)

    def _pass_on(self, kind: str, body: Mapping[str, Any]) -> None:
        """Sends a message on as the leader: the nodes are connected to it only."""
        if not self._peers.node:
            self._peers.tell(kind, body)

    def _start_round(self, question: _Question, workers: Sequence[Worker]) -> list[str]:
        """Starts to collect stacks on all nodes; returns the labels of `_begin`."""
        body = {"labels": list(question.labels), "look": bool(question.why), "report": question.is_reported}
        self._peers.tell(HANGING, body)
        return self._begin(question, workers)

    def _begin(self, question: _Question, workers: Sequence[Worker]) -> list[str]:
        """Starts to collect stacks; returns the labels to report at once if no thread can be started."""
        from ma_boot.node.observe.rank_stacks.stacks_round import StackLook, StacksRound  # few jobs hang

        now = time.monotonic()
        active = {pid: activity.when for pid, activity in self.state.activities.items()}
        quiet = {worker.pid: now - active.get(worker.pid, worker.output.last_output) for worker in workers}
        stepping = self.progress.stepping(now) if self.progress is not None else frozenset()
        look = StackLook.of(self.state.timeout, bool(question.why), stepping)
        self._question = question
        try:
            self._round = StacksRound(workers, quiet, self._peers, self._inbox, look=look)
        except RuntimeError as error:  # the limit of threads
            self._journal.warn(f"no stacks: {error}")
            if question.labels:
                self._journal.event("hang", labels=question.labels)
            return list(question.labels)
        # Ends first: an ended peer sends no stacks any more.
        for _, message in sorted(self._heard.items(), reverse=True):
            self._round.receive(message)
        return []

    def _finish_round(self, done: StacksRound, workers: Sequence[Worker]) -> list[str]:
        """Prints and records the result; returns the labels of workers of a hang that may end the run."""
        self._round = None
        self._heard = {key: message for key, message in self._heard.items() if message.kind == ENDED}
        lines, report = done.report()
        self._suspected = time.monotonic(), report.suspect
        if self._question.why:
            return self._finish_look(done, lines, report, workers)
        ranks_at_work = bool(report.working)
        self.state = self.state.collected(done.state.began, time.monotonic(), ranks_at_work)
        self._show(lines, report)
        labels = [] if ranks_at_work else list(self._question.labels)
        if labels:
            self._journal.event("hang", labels=labels)
        return labels

    def _finish_look(
        self, done: StacksRound, lines: Sequence[str], report: StacksReport, workers: Sequence[Worker]
    ) -> list[str]:
        """Reports a look at ranks without progress: a hang the first time only."""
        question, now = self._question, time.monotonic()
        # Few jobs get here.
        from ma_boot.node.observe.hangs.look_verdict import LookVerdict

        progress = self.progress
        has_steps = progress is not None and bool(progress.clock.runs or progress.elsewhere)
        verdict = LookVerdict.of(report, done.progress_of_unranked, needs_waits=not has_steps)
        is_own = question.is_own and progress is not None
        looks = progress.looked(now, bool(verdict.at_work)) if progress is not None and is_own else 0
        if verdict.at_work:
            if question.is_own:
                self._journal.say(Message.of("{}; no hang: {}", question.why, verdict.at_work))
            return []
        if question.is_reported:
            self._journal.warn(question.why)
            self._show(lines, report)
            if is_own and self._options.action == "stop" and not verdict.may_end_run:
                self._journal.say(Message.of(STAYS_BUSY))
        if not question.is_own:
            return []
        labels = [worker.spec.label for worker in _watched(workers)]
        if question.is_reported:
            self._journal.event("hang", labels=labels)
        return labels if looks and verdict.ends_run(looks) else []

    def _show(self, lines: Sequence[str], report: StacksReport) -> None:
        for line in lines:
            self._journal.say(line)
        self._journal.event("stacks", **report.fields())


def _progress_watch(options: HangOptions, output: OutputReader) -> ProgressWatch | None:
    """The watch of a detection that is on; most jobs have none."""
    if options.timeout is None:
        return None
    from ma_boot.node.observe.hangs.progress_watch import ProgressWatch

    return ProgressWatch(options.timeout, output)


def _watched(workers: Sequence[Worker]) -> list[Worker]:
    """Returns the running workers that may hang: ranks, or all workers if none is a rank.

    MindSpore's scheduler is no rank; it is idle as long as the ranks train.
    """
    ranks = [worker for worker in workers if worker.spec.rank is not None]
    return [worker for worker in ranks or workers if worker.exit is None]
