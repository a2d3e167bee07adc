"""Runs the processes of a launch plan, all or none; a failure is a value.

One thread sleeps in the kernel, which wakes it for output, for the end of a process and for a signal.
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
from ma_boot.wording import Message

RANKS_LEFT_SECONDS = 1.0  # in which a process that a shell has just forked becomes the training


class Limits(NamedTuple):
    """How long, and for how much output, processes are left alone; times in seconds.

    `stop_timeout` lies between SIGTERM and SIGKILL; `hurry` is the signal that the processes get at a further
    stop signal. After `quiet_bytes` on the console only the first process is shown, after `silent_bytes`
    none: ModelArts collects 1 GiB (`modelarts-pipe: log length overflow(max:1073741824...`), also of
    ma_boot's own report.
    """

    stop_timeout: float = 15.0
    hurry: int = signal.SIGKILL
    quiet_bytes: int = 1 << 29
    silent_bytes: int = (1 << 30) - (1 << 24)


class Observer(Protocol):
    """Watches a run from beside; nothing here waits. What an observer raises ends it, never the run."""

    @property
    def without(self) -> str:
        """What is said where it has failed: `hangs are no longer detected`."""

    def patience(self) -> float:
        """Seconds until `check` should be called; whatever wakes the inbox is a reason, too."""

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Why all processes are to be stopped; mostly empty.

        `workers` are all of the node, also those that have ended; `stopping` says that they are being
        stopped.
        """

    def close(self) -> None:
        """The run is over."""


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

    Nothing that they start is left when this function returns or raises, and nothing when ma_boot itself is
    killed. `environ` is the environment of this process, `container` its name, which may be empty.

    Raises:
        OSError: the guard that outlives ma_boot cannot be started.
    """
    marker = own_marker(container)
    group = WorkerGroup(marker)  # before the guard, which is a child, too: mostly the first one
    twice = StartedTwice()
    with (
        guarded(marker, environ),
        OutputPump(journal, inbox, limits.quiet_bytes, limits.silent_bytes) as pump,
        group,
        ExitWatch(pump, inbox, journal.event) as watch,
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
            elif why := _reason(inbox.stops, watch.exits):
                _begin_stop(stop, why, inbox, watch, group)
            elif twice.check(group.workers):
                stop.begin(str(twice.error), group.labels())
            why = observing.check(group.workers, stop.begun)
            if why and not stop.begun:
                _begin_stop(stop, why, inbox, watch, group)
        _check_what_is_left(twice, group, watch, stop)
        _stop_rest(group, watch, stop, journal)
    exits = _with_losses(watch.exits, group.workers, journal)
    return RunResult(exits, not_started or twice.error, left=tuple(stop.survivors))


class _Observers:
    """The observers of a run; one that raises is given up, with a line."""

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
        """The first reason to stop of any of them."""
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
    """Begins to stop; processes that have ended by now have ended by themselves, which may be the reason."""
    watch.wait(0)
    stop.begin(_reason(inbox.stops, watch.exits) or why, group.labels())


def _with_losses(
    exits: Sequence[WorkerExit], workers: Sequence[Worker], journal: Journal
) -> tuple[WorkerExit, ...]:
    """The ends, with what the log files did not take, once they are written."""
    journal.logs.flush()
    lost = {worker.spec.label: worker.output.lost for worker in workers}
    return tuple(ended._replace(log_lost=lost[ended.label]) for ended in exits)


def _reason(stops: Sequence[int], exits: Sequence[WorkerExit]) -> str:
    """Why everything should be stopped; empty if nothing has happened."""
    if stops:
        return Message.of("{} received", signal_name(stops[0]))
    failed = RunResult(tuple(exits)).first_failure
    return Message.of("{} {}", failed.label, failed.how()) if failed is not None else ""


def _check_what_is_left(twice: StartedTwice, group: WorkerGroup, watch: ExitWatch, stop: StopLadder) -> None:
    """Checks whether the ranks have left ranks behind, which may have been started just now."""
    until = time.monotonic() + RANKS_LEFT_SECONDS
    while not stop.begun and twice.patience() < math.inf and group.left_behind() and time.monotonic() < until:
        if twice.check(group.workers, is_last=True):
            return
        watch.wait(RANKS_LEFT_SECONDS / 10)


def _stop_rest(group: WorkerGroup, watch: ExitWatch, stop: StopLadder, journal: Journal) -> None:
    """Stops what the processes left behind, in their process groups or in other sessions."""
    rest = group.left_behind()
    if rest and not stop.survivors:
        journal.say(f"stopping processes left behind: {', '.join(rest)}")
        stop.begin_again()
    while rest and not stop.survivors:
        watch.wait(stop.patience())
        rest = group.left_behind()
        stop.escalate(rest)
