"""Moves the files of a transfer: chooses a pool, hands out their units, counts what is done."""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from operator import length_hint
from typing import Callable, NamedTuple

from path_mapping.errors import Cancelled, PathMappingError
from path_mapping.stores.objects import Copy
from path_mapping.stores.units import Unit, bytes_of
from path_mapping.transfer.jobs import Job
from path_mapping.transfer.parts import (
    BATCH_BYTES,
    DOWN_ABREAST,
    MIB,
    RANGE,
    PoolSize,
    is_small,
    pool_size,
)
from path_mapping.workers.pool import Outcome, Pool
from path_mapping.workers.retry import RetriedStore


class Progress(NamedTuple):
    """Files and bytes that are done, and their totals."""

    files_done: int
    files: int
    bytes_done: int
    bytes: int


class Tally:
    """Counts files, bytes and retried requests; bytes that are sent twice count once."""

    def __init__(self, files: int, size: int, progress: Callable[[Progress], None]) -> None:
        self.retries = 0
        self._files, self._size, self._progress = files, size, progress
        self._done_files = self._done_bytes = self._partial = 0

    def moved(self, account: list[int], size: int) -> None:
        """Counts bytes on the account of a file: `[so far, at most]`."""
        more = min(size, account[1] - account[0])
        account[0] += more
        self._partial += more
        self.report()

    def end(self, account: list[int]) -> None:
        """Counts a file as done, whether it succeeded or not."""
        self._partial -= account[0]
        self._done_bytes += account[1]
        self._done_files += 1
        self.report()

    def report(self) -> None:
        """Calls `progress`."""
        done = self._done_bytes + self._partial
        self._progress(Progress(self._done_files, self._files, done, self._size))


# Seconds between two checks of `cancel`.
POLL_SECONDS = 0.1


class Work(NamedTuple):
    """Files to move, their number and size in bytes, and the function that makes a file a job.

    `done` is called with the job of each complete file, `failed` with each other file. `down`: downloads.
    """

    copies: Iterator[Copy]
    files: int
    size: int
    job_of: Callable[[Copy], Job]
    done: Callable[[Job], None]
    failed: Callable[[Copy, Exception], None]
    down: bool = False


class RunningJob:
    """A job that has begun, and its units."""

    def __init__(self, job: Job) -> None:
        self.job = job
        # Its bytes so far, and at most.
        self.account = [0, job.copy.size]
        # Units that were handed out to the pool.
        self.outstanding = 0
        # Lists of units that were not handed out yet.
        self.waiting = 0
        self.error: BaseException | None = None
        self.cleaning = False


class Scheduler:
    """The jobs of one transfer on a pool of this size."""

    def __init__(self, work: Work, to: RetriedStore, tally: Tally, size: PoolSize) -> None:
        self._work, self._tally, self._cancel = work, tally, to.cancel
        # Files from which units are taken in turn.
        self._abreast = DOWN_ABREAST if work.down else 1
        self._running: set[RunningJob] = set()
        self._ready: deque[tuple[RunningJob, Iterator[Unit]]] = deque()
        # By the number of a unit.
        self._known: dict[int, tuple[RunningJob, Unit]] = {}
        # A process reports no bytes before the outcome of their unit.
        self._counts_outcomes = size.processes > 0
        self._pool = self._open_pool(to, size)

    def _open_pool(self, to: RetriedStore, size: PoolSize) -> Pool:
        if size.processes:
            from path_mapping.workers.worker_processes import ProcessPool  # slow to import

            return ProcessPool(to, size.processes, size.connections)
        from path_mapping.workers.loop import Loop  # not for a transfer that has nothing to do

        return Loop(to, size.connections if to.store.signer is not None else 1, self._moved)

    def _moved(self, number: int, size: int) -> None:
        """Counts bytes of a unit. Raises `Cancelled`, which ends the unit, if the transfer was cancelled."""
        if self._cancel.is_set():
            raise Cancelled
        self._tally.moved(self._known[number][0].account, size)

    def run(self, copies: Iterable[Copy], left: int) -> None:
        """Moves these files of the work; `left` is their number.

        Raises:
            Cancelled: soon after `cancel` is set.
            WorkersLost: no worker is left.
        """
        source = map(self._work.job_of, copies)
        while True:
            if self._cancel.is_set():
                raise Cancelled
            while True:
                units = self._next_units(source, self._pool.wanted(left))
                if not units:
                    break
                left = max(0, left - len(units))
                self._pool.submit(units)
            if not self._known:
                return
            for outcome in self._pool.outcomes(POLL_SECONDS):
                self._receive(outcome)

    def close(self) -> None:
        """Closes the pool, and abandons the jobs that have not ended."""
        self._pool.close()
        for running in self._running:
            running.job.abandon()
        self._running.clear()

    def _next_units(self, source: Iterator[Job], most: int) -> list[Unit]:
        """Returns the next units, limited in number and bytes; files that cannot begin fail meanwhile."""
        units: list[Unit] = []
        size = 0
        while len(units) < most and size < BATCH_BYTES:
            unit = self._next_unit(source)
            if unit is None:
                break
            units.append(unit)
            size += bytes_of(unit) or BATCH_BYTES
        return units

    def _next_unit(self, source: Iterator[Job]) -> Unit | None:
        """Returns a unit of the running jobs, in turn; begins further jobs while there are too few."""
        while True:
            job = next(source, None) if len(self._ready) < self._abreast else None
            if job is not None:
                running = RunningJob(job)
                self._running.add(running)
                self._ask(running, job.start)
            elif self._ready:
                running, units = self._ready.popleft()
                unit = next(units, None) if running.error is None or running.cleaning else None
                if unit is not None and length_hint(units, 1):
                    self._ready.append((running, units))
                else:
                    running.waiting -= 1
                if unit is not None:
                    return self._handed_out(running, unit)
                self._end_if_idle(running)
            else:
                return None

    def _handed_out(self, running: RunningJob, unit: Unit) -> Unit:
        running.outstanding += 1
        self._known[unit.number] = (running, unit)
        return unit

    def _ask(self, running: RunningJob, units: Callable[[], Iterable[Unit]]) -> None:
        """Asks a job for its next units; a job that raises has failed."""
        try:
            wanted = units()
        except (PathMappingError, OSError) as error:
            running.error = running.error or error
            wanted = ()
        if wanted == ():
            self._end_if_idle(running)
        else:
            running.waiting += 1
            self._ready.append((running, iter(wanted)))

    def _receive(self, outcome: Outcome) -> None:
        """Gives an outcome to its job."""
        running, unit = self._known.pop(outcome.number)
        self._tally.retries += outcome.retries
        running.outstanding -= 1
        error = outcome.error
        if self._cancel.is_set():
            return
        if error is not None:
            if not isinstance(error, (PathMappingError, OSError)):
                raise error
            running.error = running.error or error
            self._end_if_idle(running)
            return
        if self._counts_outcomes:
            self._tally.moved(running.account, bytes_of(unit))
        if running.error is not None:
            if running.cleaning:
                running.job.cleaned(unit)
            self._end_if_idle(running)
        else:
            self._ask(running, lambda: running.job.proceed(unit, outcome.value))

    def _end_if_idle(self, running: RunningJob) -> None:
        """Ends a job that has no unit left, neither handed out nor waiting."""
        if running.outstanding or running.waiting:
            return
        if running.error is not None and not running.cleaning:
            running.cleaning = True
            error = running.error
            self._ask(running, lambda: running.job.failed(error))
            return
        self._running.discard(running)
        self._tally.end(running.account)
        if running.error is None:
            self._work.done(running.job)
        elif isinstance(running.error, Exception):
            self._work.failed(running.job.copy, running.error)


# Small files that are moved first, one by one: the time of the second one is the round trip time.
PROBES = 2
# Files among which the smallest are searched.
PROBED = 500


def move_files(work: Work, to: RetriedStore, progress: Callable[[Progress], None]) -> int:
    """Moves all files; returns the number of retried requests.

    Raises:
        Cancelled: soon after `cancel` of the store is set.
        WorkersLost: all worker processes died.
    """
    pieces = work.files + work.size // RANGE
    tally = Tally(work.files, work.size, progress)
    tally.report()
    copies, left, round_trip = work.copies, work.files, 0.0
    if to.store.signer is not None and not is_small(pieces, work.size):
        near = list(itertools.islice(copies, PROBED))
        probes = _smallest(near)
        copies = itertools.chain((copy for copy in near if copy not in probes), copies)
        left -= len(probes)
        with closing(Scheduler(work, to, tally, PoolSize(0, 1))) as alone:
            for probe in probes:
                begun = time.monotonic()
                alone.run([probe], 1)
                round_trip = time.monotonic() - begun
    if left:
        cores = len(os.sched_getaffinity(0))
        size = pool_size(pieces, work.size, cores, round_trip=round_trip)
        with closing(Scheduler(work, to, tally, size)) as all_of_them:
            all_of_them.run(copies, left)
    return tally.retries


def _smallest(copies: Sequence[Copy]) -> list[Copy]:
    """Returns small files to measure the round trip time with, if there are any."""
    small = [copy for copy in copies if copy.size < MIB]
    return sorted(small, key=lambda copy: copy.size)[:PROBES]
