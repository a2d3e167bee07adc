"""Errors in CANN's logs of the ranks that failed: their code and reason may stand in them alone."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from ma_boot.node.launch.launch_plan import WorkerSpec
from ma_boot.node.observe.plogs import LOG_PATH, PlogWriter, plog_ends
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.task import Task
from ma_boot.report.plog import error_lines
from ma_boot.report.result import WorkerExit

# Seconds for all ranks of an attempt together: a failure must not wait for a stalled file system.
PLOG_SECONDS = 2.0
# Seconds; a file system may round the times of its files down.
CLOCK_SECONDS = 2.0
# Ranks whose logs are read, the first to fail first.
MOST_RANKS = 64


class FailedPlogs:
    """Observer of an attempt that reads the plogs of ranks as they fail.

    It stands before the observer that reports failures to the peers: they judge by the first report. Reading
    takes some milliseconds; what cannot be read in time is left out.
    """

    without = "CANN's logs of failed ranks are not read"

    def __init__(self, specs: Sequence[WorkerSpec], inbox: SignalInbox) -> None:
        self._specs = specs
        self._inbox = inbox
        self._seconds = PLOG_SECONDS
        # Errors by the pid of a process that has failed.
        self._errors: dict[int, str] = {}

    def patience(self) -> float:
        """Returns infinity: the end of a process calls `check`."""
        return math.inf

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Adds the errors to the ends of processes that failed by themselves; never asks for a stop."""
        for worker in workers:
            if any(not ended.stopped for ended in worker.failed_ranks):
                worker.failed_ranks[:] = self.with_plogs(worker.failed_ranks)
            if worker.exit is not None and not worker.exit.stopped:
                (worker.exit,) = self.with_plogs([worker.exit])
        return ""

    def close(self) -> None:
        """Has nothing to free: a read that is under way ends by itself."""

    def with_plogs(self, exits: Sequence[WorkerExit]) -> list[WorkerExit]:
        """Returns the ends of processes, failed ones with the newest errors of their plogs."""
        new = [ended for ended in exits if ended.code and ended.pid not in self._errors]
        if new and len(self._errors) < MOST_RANKS and self._seconds > 0:
            self._read(new[:MOST_RANKS])
        self._errors.update((ended.pid, "") for ended in new if ended.pid not in self._errors)
        return [ended._replace(plog=self._errors[ended.pid]) if ended.code else ended for ended in exits]

    def _read(self, failed: Sequence[WorkerExit]) -> None:
        found: dict[int, str] = {}

        def work(cancel: threading.Event) -> None:
            for ended in failed:
                if cancel.is_set():
                    return
                found[ended.pid] = _errors_of(ended, self._specs)

        began = time.monotonic()
        with suppress(RuntimeError):  # the limit of threads is reached, perhaps by the training
            task = Task("plogs", work, self._inbox)
            task.wait(lambda: None, began + self._seconds)
            task.cancel()
        self._seconds -= time.monotonic() - began
        self._errors.update(dict(found))  # a copy, as the thread may still run


def _errors_of(ended: WorkerExit, workers: Sequence[WorkerSpec]) -> str:
    """Reads the plogs of a process: of one that ma_boot started, or of a rank that such a command started."""
    spec = next((worker for worker in workers if worker.label == ended.label), None)
    places = Counter(worker.environ.get(LOG_PATH) for worker in workers)
    is_alone = spec is not None and places[spec.environ.get(LOG_PATH)] == 1
    environ = (spec or workers[0]).environ
    started = time.time() - (time.monotonic() - ended.ended_ns / 1e9) - ended.seconds
    writer = PlogWriter(ended.pid, with_children=is_alone, since=started - CLOCK_SECONDS)
    return error_lines(plog_ends(environ, writer))
