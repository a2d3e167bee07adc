"""Runs jobs on a pool: hands out their units in batches, and gives them the outcomes."""

from __future__ import annotations

import threading
from collections import deque
from operator import length_hint
from typing import Callable, Deque, Dict, Iterable, Iterator, Optional, Set, Tuple

from path_mapping.errors import Cancelled, PathMappingError
from path_mapping.planning import Copy
from path_mapping.stores import Unit, bytes_of
from path_mapping.transfer.jobs import Job
from path_mapping.transfer.parts import BATCH_BYTES, batch_limit
from path_mapping.transfer.progress import Tally
from path_mapping.workers import Batch, Outcome, Pool

LOOK_SECONDS = 0.1  # between two checks of `cancel`


class RunningJob:
    """A job that has begun, and its units."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.account = [0, job.copy.size]
        self.numbers: Set[int] = set()
        self.outstanding = 0  # units handed out
        self.waiting = 0  # lists of units that are not handed out yet
        self.error: Optional[BaseException] = None
        self.cleaning = False


class Scheduler:
    """The jobs of one transfer on one pool.

    Units are taken from so many files `abreast`, in turn. `done` is called with each file that is complete,
    `failed` with each that is not. `count_outcomes` counts the bytes of a unit when it ends, for pools that
    do not report them earlier. Afterwards `whole` is the number of complete files, `retries` that of retried
    requests.
    """

    def __init__(
        self,
        pool: Pool,
        tally: Tally,
        cancel: threading.Event,
        done: Callable[[Copy], None],
        failed: Callable[[Copy, Exception], None],
        count_outcomes: bool,
        abreast: int,
    ) -> None:
        self._pool, self._tally, self._cancel = pool, tally, cancel
        self._done, self._failed = done, failed
        self._count_outcomes, self._abreast = count_outcomes, abreast
        self.whole = self.retries = 0
        self._running: Set[RunningJob] = set()
        self._ready: Deque[Tuple[RunningJob, Iterator[Unit]]] = deque()
        self._known: Dict[int, Tuple[RunningJob, Unit]] = {}  # by unit: its job, and itself
        self._ends: Set[int] = set()  # the last unit of each batch in progress

    def run(self, jobs: Iterable[Job], left: int) -> None:
        """Runs all jobs; `left` is their number.

        Raises:
            Cancelled: soon after `cancel` is set.
            WorkersLost: no worker is left.
        """
        source = iter(jobs)
        while True:
            if self._cancel.is_set():
                raise Cancelled
            while len(self._ends) < self._pool.room:
                batch = self._batch(source, batch_limit(left, self._pool.room, 1 + self._pool.ahead))
                if not batch:
                    break
                left -= len(batch)
                self._ends.add(batch[-1].number)
                self._pool.submit(batch)
            if not self._ends:
                return
            for outcome in self._pool.outcomes(LOOK_SECONDS):
                self._ends.discard(outcome.number)
                self._take(outcome)

    def close(self) -> None:
        """Abandons the jobs that have not ended, after the pool was closed."""
        for running in self._running:
            running.job.abandon()
        self._running.clear()

    def _batch(self, source: Iterator[Job], limit: int) -> Batch:
        """The next units, limited in number and bytes; files that cannot even begin fail on the way."""
        batch: Batch = []
        size = 0
        while len(batch) < limit and size < BATCH_BYTES:
            unit = self._next_unit(source)
            if unit is None:
                break
            batch.append(unit)
            size += bytes_of(unit) or BATCH_BYTES
        return batch

    def _next_unit(self, source: Iterator[Job]) -> Optional[Unit]:
        """A unit of the jobs that have begun, in turn; more of them begin as long as there are too few."""
        while True:
            job = next(source, None) if len(self._ready) < self._abreast else None
            if job is not None:
                running = RunningJob(job)
                self._running.add(running)
                self._ask(running, job.begin)
            elif self._ready:
                running, units = self._ready.popleft()
                unit = next(units, None) if running.error is None or running.cleaning else None
                if unit is not None and length_hint(units, 1):
                    self._ready.append((running, units))
                else:
                    running.waiting -= 1
                if unit is not None:
                    return self._handed_out(running, unit)
                self._settle(running)
            else:
                return None

    def _handed_out(self, running: RunningJob, unit: Unit) -> Unit:
        running.outstanding += 1
        running.numbers.add(unit.number)
        self._known[unit.number] = (running, unit)
        self._tally.begin(unit.number, running.account)
        return unit

    def _ask(self, running: RunningJob, units: Callable[[], Iterable[Unit]]) -> None:
        """Asks a job for its next units; a job that raises has failed."""
        try:
            wanted = units()
        except (PathMappingError, OSError) as error:
            running.error = running.error or error
            wanted = ()
        if wanted == ():
            self._settle(running)
        else:
            running.waiting += 1
            self._ready.append((running, iter(wanted)))

    def _take(self, outcome: Outcome) -> None:
        """Gives an outcome to its job."""
        running, unit = self._known.pop(outcome.number)
        self.retries += outcome.retries
        running.outstanding -= 1
        error = outcome.error
        if self._cancel.is_set():
            return
        if error is not None:
            if not isinstance(error, (PathMappingError, OSError)):
                raise error
            running.error = running.error or error
            self._settle(running)
            return
        if self._count_outcomes:
            self._tally.moved(outcome.number, bytes_of(unit))
        if running.error is not None:
            if running.cleaning:
                running.job.cleaned(unit)
            self._settle(running)
        else:
            self._ask(running, lambda: running.job.proceed(unit, outcome.value))

    def _settle(self, running: RunningJob) -> None:
        """Ends a job that has no unit left, neither handed out nor waiting."""
        if running.outstanding or running.waiting:
            return
        if running.error is not None and not running.cleaning:
            running.cleaning = True
            error = running.error
            self._ask(running, lambda: running.job.failed(error))
            return
        self._running.discard(running)
        self._tally.end(running.numbers, running.account)
        if running.error is None:
            self.whole += 1
            self._done(running.job.copy)
        elif isinstance(running.error, Exception):
            self._failed(running.job.copy, running.error)
