"""Runs the processes of a launch plan, all or none; a failure is a value.

One thread sleeps in the kernel, which wakes it for output, for the end of a process and for a signal.
"""

from __future__ import annotations

import math
import signal
import time
from typing import Callable, Mapping, NamedTuple, Optional, Sequence, Tuple

from ma_boot.errors import signal_name
from ma_boot.launch import WorkerSpec
from ma_boot.observe.hang_detector import HangDetector
from ma_boot.observe.peers import ALONE, Peers
from ma_boot.observe.sampler import NOT_SAMPLED, Metrics, MetricsTask
from ma_boot.processes import SignalInbox, guarded, own_marker
from ma_boot.reporting import Journal, RunResult, WorkerExit
from ma_boot.supervisor.exit_watch import ExitWatch
from ma_boot.supervisor.output import OutputPump
from ma_boot.supervisor.started_twice import StartedTwice
from ma_boot.supervisor.stop_ladder import StopLadder
from ma_boot.supervisor.worker_group import Worker, WorkerGroup

RANKS_LEFT_SECONDS = 1.0  # in which a process that a shell has just forked becomes the training


class Limits(NamedTuple):
    """How long, and for how much output, processes are left alone; times in seconds.

    `stop_timeout` lies between SIGTERM and SIGKILL; `hurry` is the signal that the processes get at a further
    stop signal. `hang_timeout` is None to detect no hangs; `hang_action` is `report` or `stop`. After
    `quiet_bytes` on the console only the first process is shown, after `silent_bytes` none: ModelArts
    collects 1 GiB (`modelarts-pipe: log length overflow(max:1073741824...`), also of ma_boot's own report.
    """

    stop_timeout: float = 15.0
    hurry: int = signal.SIGKILL
    hang_timeout: Optional[float] = None
    hang_action: str = "report"
    quiet_bytes: int = 1 << 29
    silent_bytes: int = (1 << 30) - (1 << 24)


def supervise(
    specs: Sequence[WorkerSpec],
    limits: Limits,
    inbox: SignalInbox,
    journal: Journal,
    environ: Mapping[str, str],
    container: str,
    sampled: Metrics = NOT_SAMPLED,
    peers: Peers = ALONE,
    halted: Callable[[], str] = lambda: "",
) -> RunResult:
    """Runs the processes to their end; a stop signal, or the first failure, stops all of them.

    Nothing that they start is left when this function returns or raises, and nothing when ma_boot itself is
    killed. `environ` is the environment of this process, `container` its name, which may be empty; `sampled`
    says what is looked at meanwhile, `peers` are the other nodes of the job. `halted` says why all processes
    are to be stopped, mostly nothing; who changes that wakes the inbox.

    Raises:
        OSError: the guard that outlives ma_boot cannot be started.
    """
    marker = own_marker(container)
    group = WorkerGroup(marker)  # before the guard, which is a child, too: mostly the first one
    twice, hung = StartedTwice(), list[str]()
    with (
        guarded(marker, environ),
        OutputPump(journal, inbox, limits.quiet_bytes, limits.silent_bytes) as pump,
        group,
        ExitWatch(pump, inbox, journal.event) as watch,
        MetricsTask(sampled, inbox, journal) as metrics,
        HangDetector(limits.hang_timeout, inbox, journal, peers) as hangs,
    ):
        stop = StopLadder(limits.stop_timeout, limits.hurry, inbox.stops, group.signal, journal)
        not_started = group.start(specs, inbox, journal)
        watch.add(group.workers)
        if not_started is not None:
            stop.begin(str(not_started), group.labels())
        while group.running() and not stop.survivors:
            looks = hangs.patience(), metrics.patience(), twice.patience()
            watch.wait(stop.patience() if stop.begun else min(looks), stop.begun)
            metrics.check(group.workers)
            _hear(peers, hangs, group.workers, watch.exits)
            if stop.begun:
                stop.escalate(group.labels())
            elif why := _reason(inbox.stops, watch.exits) or halted():
                watch.wait(0)  # processes that have ended by now have ended by themselves
                stop.begin(_reason(inbox.stops, watch.exits) or why, group.labels())
                peers.tell_failures(RunResult(tuple(watch.exits)))
            elif twice.check(group.workers):
                stop.begin(str(twice.error), group.labels())
            elif (found := hangs.check(group.workers)) and limits.hang_action == "stop":
                hung = found
                stop.begin(f"{', '.join(hung)} hung for {limits.hang_timeout:.0f} s", group.labels())
        _look_at_what_is_left(twice, group, watch, stop)
        _stop_rest(group, watch, stop, journal)
        _tell_ends(peers, watch.exits)
    exits = _with_losses(watch.exits, group.workers, journal)
    return RunResult(
        exits, not_started or twice.error, tuple(hung), tuple(stop.survivors), suspect=hangs.suspect
    )


def _with_losses(
    exits: Sequence[WorkerExit], workers: Sequence[Worker], journal: Journal
) -> Tuple[WorkerExit, ...]:
    """The ends, with what the log files did not take, once they are written."""
    journal.logs.flush()
    lost = {worker.spec.label: worker.output.lost for worker in workers}
    return tuple(ended._replace(log_lost=lost[ended.label]) for ended in exits)


def _hear(peers: Peers, hangs: HangDetector, workers: Sequence[Worker], exits: Sequence[WorkerExit]) -> None:
    """Takes what other nodes have told; after a failure of theirs, tells who has raised here meanwhile."""
    for message in peers.heard():
        if message.kind == "failed":
            running = [worker.so_far() for worker in workers if worker.exit is None]
            peers.tell_failures(RunResult((*exits, *running)))
        else:
            hangs.hear(message, workers)


def _tell_ends(peers: Peers, exits: Sequence[WorkerExit]) -> None:
    if peers.others:
        codes = [[ended.rank, ended.code] for ended in exits if ended.rank is not None]
        peers.tell("ended", {"codes": codes})


def _reason(stops: Sequence[int], exits: Sequence[WorkerExit]) -> str:
    """Why everything should be stopped; empty if nothing has happened."""
    if stops:
        return f"{signal_name(stops[0])} received"
    failed = RunResult(tuple(exits)).first_failure
    return f"{failed.label} {failed.how()}" if failed is not None else ""


def _look_at_what_is_left(
    twice: StartedTwice, group: WorkerGroup, watch: ExitWatch, stop: StopLadder
) -> None:
    """Looks whether what the ranks have left behind are ranks, which may have been started just now."""
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
