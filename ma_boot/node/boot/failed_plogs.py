"""Errors in CANN's logs of the ranks that failed: their code and reason may stand in them alone."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence

from ma_boot.node.launch.launch_plan import WorkerSpec
from ma_boot.node.observe.plogs import LOG_PATH, PlogWriter, plog_ends
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.task import Task
from ma_boot.report.plog import error_lines
from ma_boot.report.result import WorkerExit

# Seconds for all ranks together: the end of a node must not wait for a stalled file system.
PLOG_SECONDS = 2.0
# Seconds; a file system may round the times of its files down.
CLOCK_SECONDS = 2.0
# Ranks whose logs are read, the first to fail first.
MOST_RANKS = 64


def with_plogs(
    exits: Sequence[WorkerExit], workers: Sequence[WorkerSpec], inbox: SignalInbox
) -> list[WorkerExit]:
    """Returns the ends of processes, failed ones with the newest errors of their plogs.

    What cannot be read in time is left out.
    """
    failed = [number for number, ended in enumerate(exits) if ended.code][:MOST_RANKS]
    found: dict[int, str] = {}

    def work(cancel: threading.Event) -> None:
        for number in failed:
            if cancel.is_set():
                return
            found[number] = _errors_of(exits[number], workers)

    if failed:
        task = Task("plogs", work, inbox)
        task.wait(lambda: None, time.monotonic() + PLOG_SECONDS)
        task.cancel()
    read = dict(found)  # the thread may still run
    return [ended._replace(plog=read.get(number, "")) for number, ended in enumerate(exits)]


def _errors_of(ended: WorkerExit, workers: Sequence[WorkerSpec]) -> str:
    """Reads the plogs of a process: of one that ma_boot started, or of a rank that such a command started."""
    spec = next((worker for worker in workers if worker.label == ended.label), None)
    places = Counter(worker.environ.get(LOG_PATH) for worker in workers)
    is_alone = spec is not None and places[spec.environ.get(LOG_PATH)] == 1
    environ = (spec or workers[0]).environ
    started = time.time() - (time.monotonic() - ended.ended_ns / 1e9) - ended.seconds
    writer = PlogWriter(ended.pid, with_children=is_alone, since=started - CLOCK_SECONDS)
    return error_lines(plog_ends(environ, writer))
