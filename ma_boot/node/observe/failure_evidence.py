"""Evidence that is read as a rank fails: the holder of a port that it could not bind, and CANN's errors."""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress

from ma_boot.node.launch.launch_plan import WorkerSpec
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.sockets import listening_sockets, sockets_of
from ma_boot.processes.task import Task
from ma_boot.report.explain import output_lines, output_of_failed_rank
from ma_boot.report.failure import find_failure
from ma_boot.report.result import WorkerExit
from ma_boot.wording import Message

_IN_USE = r"EADDRINUSE|[Aa]ddress already in use|already been bound|EJ0003|EI0019"
# Of PyTorch, Gloo, sockets, HCCL and servers.
_PORT = r"(?i)(?:\bport(?: number)?[ :=]{1,3}|\]:|\d:|', |localhost:)(\d{1,5})\b"
_LAST_LINES = 60
# Source lines in a traceback: Python's own exception does not name the port.
_BINDS = r"\b(?:bind|listen|create_server|\w{0,40}Server)\(.{0,200}?\b(\d{4,5})\b"
# Seconds for all ranks of an attempt together: a failure must not wait for a stalled file system.
PLOG_SECONDS = 2.0
# Seconds; a file system may round the times of its files down.
CLOCK_SECONDS = 2.0
# Ranks whose logs are read, the first to fail first.
MOST_RANKS = 64


class PortWatch:
    """Looks for the holder as soon as a rank has failed: the stop of all ranks may free the port."""

    without = "the holder of a port in use is not named"

    def __init__(self) -> None:
        self._advice: dict[str, str] = {}
        self._seen: set[str] = set()

    def patience(self) -> float:
        """Never asks to be called: each end of a rank calls `check`."""
        return math.inf

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Looks at the ranks that have failed since the last call; never stops a run."""
        of_ranks = [ended for worker in workers for ended in worker.failed_ranks]
        ends = [*of_ranks, *(worker.exit for worker in workers if worker.exit is not None)]
        for ended in ends:
            if ended.code and ended.label not in self._seen:
                self._seen.add(ended.label)
                advice = next(filter(None, map(_holder_of, _ports_in_use(ended.output))), "")
                if advice:
                    self._advice[ended.label] = advice
        return ""

    def advice(self, failure: WorkerExit | None) -> tuple[str, ...]:
        """Returns what is known of the port that this process could not bind."""
        known = self._advice.get(failure.label) if failure is not None else None
        return (known,) if known is not None else ()

    def close(self) -> None:
        """Has no resources."""


def _ports_in_use(output: str) -> Iterator[int]:
    """Yields the ports in lines about an address in use, the last line first, then those of source lines."""
    if not re.search(_IN_USE, output):
        return
    lines = output_lines(output)[: -_LAST_LINES - 1 : -1]
    named = [line for line in lines if re.search(_IN_USE, line)]
    for pattern, searched in ((_PORT, named), (_BINDS, lines)):
        yield from (int(port) for line in searched for port in re.findall(pattern, line))


def _holder_of(port: int) -> str:
    """Names the process that listens on a port; empty if it is none of this user, or has ended."""
    inodes = listening_sockets(port)
    if not inodes:
        return ""
    pids = (int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) != os.getpid())
    pid = next((pid for pid in pids if not inodes.isdisjoint(sockets_of(pid))), None)
    if pid is None:
        return ""
    from ma_boot.node.scripts.job_processes import command_of
    from ma_boot.node.scripts.leftovers import describe_process

    words = command_of(pid)
    return Message.of(
        "port {} is held by {}: end it, or choose another port", port, describe_process(pid, words)
    )


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
        new = [ended for ended in exits if ended.pid not in self._errors and _has_failed(ended)]
        if new and len(self._errors) < MOST_RANKS and self._seconds > 0:
            self._read(new[:MOST_RANKS])
        self._errors.update((ended.pid, "") for ended in new if ended.pid not in self._errors)
        return [ended._replace(plog=self._errors.get(ended.pid, "")) for ended in exits]

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


def _has_failed(ended: WorkerExit) -> bool:
    """Returns whether a process has failed, also one that had raised when it was stopped."""
    if not ended.code or not ended.stopped:
        return bool(ended.code)
    return find_failure(output_of_failed_rank(ended.output), True) is not None


def _errors_of(ended: WorkerExit, workers: Sequence[WorkerSpec]) -> str:
    """Reads the plogs of a process: of one that ma_boot started, or of a rank that such a command started."""
    from ma_boot.node.observe.plogs import LOG_PATH, PlogWriter, plog_ends
    from ma_boot.report.plog import error_lines

    spec = next((worker for worker in workers if worker.label == ended.label), None)
    places = Counter(worker.environ.get(LOG_PATH) for worker in workers)
    is_alone = spec is not None and places[spec.environ.get(LOG_PATH)] == 1
    environ = (spec or workers[0]).environ
    started = time.time() - (time.monotonic() - ended.ended_ns / 1e9) - ended.seconds
    writer = PlogWriter(ended.pid, with_children=is_alone, since=started - CLOCK_SECONDS)
    return error_lines(plog_ends(environ, writer))
