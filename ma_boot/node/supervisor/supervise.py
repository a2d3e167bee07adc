"""Runs the processes of a launch plan, all or none; failures are returned, not raised.

The main thread waits for output, ends of processes and signals at the same time, so no step needs a lock.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from ma_boot.errors import described, signal_name
from ma_boot.node.launch.launch_plan import WorkerSpec
from ma_boot.node.supervisor.exit_watch import ExitWatch
from ma_boot.node.supervisor.output import OutputPump
from ma_boot.node.supervisor.started_twice import StartedTwice
from ma_boot.node.supervisor.stop_ladder import StopLadder
from ma_boot.node.supervisor.worker_group import Worker, WorkerGroup
from ma_boot.processes.children import guarded
from ma_boot.processes.orphan_guard import own_marker
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.journal import Journal
from ma_boot.report.result import RunResult, WorkerExit
from ma_boot.wording import Message, list_first

# Seconds in which a child that a shell has just forked executes the training. Before, it looks like a shell.
RANKS_LEFT_SECONDS = 1.0
# Processes in a line.
MOST_LEFT_NAMED = 8


class Limits(NamedTuple):
    """Limits of a run: the grace period and the output on the console.

    `stop_timeout` is the time between SIGTERM and SIGKILL in seconds; `hurry` is the signal for the processes
    at a further stop signal. After `quiet_bytes` on the console only the first process is shown, after
    `silent_bytes` none: ModelArts collects 1 GiB (`modelarts-pipe: log length overflow(max:1073741824...`),
    which must have room for ma_boot's own report.
    """

    stop_timeout: float = 15.0
    hurry: int = signal.SIGKILL
    quiet_bytes: int = 1 << 29
    silent_bytes: int = (1 << 30) - (1 << 24)


class Observer(Protocol):
    """Observer of a run. Its methods must not block; an error ends the observer, never the run."""

    @property
    def without(self) -> str:
        """Consequence of its failure for the log, as in `hangs are no longer detected`."""

    def patience(self) -> float:
        """Returns the seconds until `check` should be called; each event of the run calls it earlier."""

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Returns the reason to stop all processes; empty to continue.

        `workers` are all of the node, also those that have ended; `stopping` is True once a stop has begun.
        """

    def close(self) -> None:
        """Frees resources at the end of the run."""


def supervise(
    specs: Sequence[WorkerSpec],
    limits: Limits,
    inbox: SignalInbox,
    journal: Journal,
    environ: Mapping[str, str],
    container: str,
    observers: Sequence[Observer] = (),
) -> RunResult:
    """Runs the processes to their end; a stop signal, or the first failure, stops all of them.

    None of their descendants is left when this function returns or raises, or when ma_boot itself is killed.
    `environ` is the environment of this process, `container` its name, which may be empty.

    Raises:
        OSError: the guard that outlives ma_boot cannot be started.
    """
    marker = own_marker(container)
    # Before the guard starts: a process without children needs no scan of /proc for older ones.
    group = WorkerGroup(marker)
    twice = StartedTwice()
    with (
        guarded(marker, environ),
        OutputPump(journal, inbox, limits.quiet_bytes, limits.silent_bytes) as pump,
        group,
        ExitWatch(pump, inbox, marker, journal) as watch,
        _Observers(observers, journal) as observing,
    ):
        stop = StopLadder(limits.stop_timeout, limits.hurry, inbox.stops, group.signal, journal)
        not_started = group.start(specs, inbox, journal)
        watch.add(group.workers)
        if not_started is not None:
            stop.begin(str(not_started), group.labels())
        while group.running() and not stop.survivors:
            patience = stop.patience() if stop.begun else min(observing.patience(), twice.patience())
            watch.wait(patience, stop.begun)
            if stop.begun:
                stop.escalate(group.labels())
            elif why := stop_reason(inbox.stops, _ends(watch, group)):
                _begin_stop(stop, why, inbox, watch, group)
            elif twice.check(group.workers):
                stop.begin(str(twice.error), group.labels())
            why = observing.check(group.workers, stop.begun)
            if why and not stop.begun:
                _begin_stop(stop, why, inbox, watch, group)
        _check_left_behind(twice, group, watch, stop)
        _stop_rest(group, watch, stop, journal)
    exits = _with_losses(_ends(watch, group), group.workers, journal)
    return RunResult(exits, not_started or twice.error, left=tuple(stop.survivors))


class _Observers:
    """Observers of a run; one that raises is closed with a warning."""

    def __init__(self, observers: Sequence[Observer], journal: Journal) -> None:
        self._observers = list(observers)
        self._journal = journal

    def __enter__(self) -> _Observers:
        return self

    def __exit__(self, *exc: object) -> None:
        for observer in self._observers:
            with self._journal.best_effort(observer.without):
                observer.close()

    def patience(self) -> float:
        return min((observer.patience() for observer in self._observers), default=math.inf)

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Calls all observers and returns the first reason to stop; empty if there is none."""
        reason = ""
        for observer in list(self._observers):
            try:
                reason = reason or observer.check(workers, stopping)
            except Exception as error:
                self._observers.remove(observer)
                self._journal.warn(f"{observer.without}: {described(error)}")
                with self._journal.best_effort(observer.without):
                    observer.close()
        return reason


def _begin_stop(stop: StopLadder, why: str, inbox: SignalInbox, watch: ExitWatch, group: WorkerGroup) -> None:
    """Begins a stop; processes that have ended by now count as ended by themselves and may be the reason."""
    watch.wait(0)
    stop.begin(stop_reason(inbox.stops, _ends(watch, group)) or why, group.labels())


def _ends(watch: ExitWatch, group: WorkerGroup) -> list[WorkerExit]:
    """Returns the ends so far in order of time: of the processes, and of failed ranks that they started."""
    of_ranks = [ended for worker in group.workers for ended in worker.failed_ranks]
    return sorted([*of_ranks, *watch.exits], key=lambda ended: ended.ended_ns)


def _with_losses(
    exits: Sequence[WorkerExit], workers: Sequence[Worker], journal: Journal
) -> tuple[WorkerExit, ...]:
    """Returns the exits with the bytes missing in their log files, once those are written."""
    journal.logs.flush()
    lost = {worker.spec.label: worker.output.lost for worker in workers}
    return tuple(ended._replace(log_lost=lost.get(ended.label, 0)) for ended in exits)


def stop_reason(stops: Sequence[int], exits: Sequence[WorkerExit]) -> str:
    """Returns the reason to stop all processes, a stop signal or the first failure; empty if none."""
    if stops:
        return Message.of("{} received", signal_name(stops[0]))
    failed = RunResult(tuple(exits)).first_failure
    return Message.of("{} {}", failed.label, failed.how()) if failed is not None else ""


def _check_left_behind(twice: StartedTwice, group: WorkerGroup, watch: ExitWatch, stop: StopLadder) -> None:
    """Checks if the ranks have left ranks behind, which may have been started just now."""
    until = time.monotonic() + RANKS_LEFT_SECONDS
    while not stop.begun and twice.patience() < math.inf and group.left_behind() and time.monotonic() < until:
        if twice.check(group.workers, is_last=True):
            return
        watch.wait(RANKS_LEFT_SECONDS / 10)


def _report_rest(group: WorkerGroup, rest: Sequence[str], stop: StopLadder, journal: Journal) -> None:
    """Reports the processes that are stopped at the end: after a success the user may miss their work."""
    named = list_first(group.describe_left(), MOST_LEFT_NAMED)
    if stop.begun or any(worker.exit is None or worker.exit.code for worker in group.workers):
        journal.say(f"stopping processes left behind: {', '.join(rest)}: {named}")
        return
    text = (
        "stopping processes that are left in the background: {} (a training belongs in the foreground, or "
        "`wait` at the end of the script)"
    )
    journal.warn(Message.of(text, named))


def _stop_rest(group: WorkerGroup, watch: ExitWatch, stop: StopLadder, journal: Journal) -> None:
    """Stops processes left behind, in the workers' process groups or in other sessions."""
    rest = group.left_behind()
    if rest and not stop.survivors:
        _report_rest(group, rest, stop, journal)
        stop.begin_again()
    while rest and not stop.survivors:
        watch.wait(stop.patience())
        rest = group.left_behind()
        stop.escalate(rest)
