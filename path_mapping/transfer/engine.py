"""Runs jobs through a crew: hands out batches, hears outcomes, and keeps count."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Callable, Deque, Dict, Iterable, Iterator, List, Optional, Set, Tuple

from path_mapping.errors import Cancelled, Expired, PathMappingError
from path_mapping.planning import Copy
from path_mapping.stores import Credentials
from path_mapping.stores.units import Batch, Outcome, Unit, bytes_of
from path_mapping.transfer.jobs import Job
from path_mapping.transfer.parts import BATCH_BYTES, batch_limit
from path_mapping.workers.thread_pool import Crew

LOOK_SECONDS = 0.1  # between two looks at `cancel`


@dataclass(frozen=True)
class Progress:
    """How far a transfer is."""

    files_done: int
    files: int
    bytes_done: int
    bytes: int


class Tally:
    """Counts files and bytes, in any thread. What is sent twice counts once: it never goes back."""

    def __init__(
        self, files: int, size: int, progress: Callable[[Progress], None], cancel: threading.Event
    ) -> None:
        self._files, self._size = files, size
        self._progress = progress
        self._cancel = cancel
        self._lock = threading.RLock()
        self._done_files = self._done_bytes = self._partial = 0
        self._moved: Dict[int, List[int]] = {}  # by unit: its file's bytes so far, and at most

    def begin(self, number: int, account: List[int]) -> None:
        """The bytes of this unit are of the file with that account: `[so far, at most]`."""
        with self._lock:
            self._moved[number] = account

    def moved(self, number: int, size: int) -> None:
        """Bytes of a unit have gone; raises `Cancelled` for who has given up."""
        with self._lock:
            account = self._moved.get(number)
            if account is not None:
                more = min(size, account[1] - account[0])
                account[0] += more
                self._partial += more
            self.tell()
        if self._cancel.is_set():
            raise Cancelled("the transfer was given up")

    def end(self, numbers: Iterable[int], account: List[int]) -> None:
        """A file is over, well or not."""
        with self._lock:
            for number in numbers:
                self._moved.pop(number, None)
            self._partial -= account[0]
            self._done_bytes += account[1]
            self._done_files += 1
            self.tell()

    def tell(self) -> None:
        """Says how far it is."""
        with self._lock:
            done = self._done_bytes + self._partial
            self._progress(Progress(self._done_files, self._files, done, self._size))


class Running:
    """A job that has begun."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.account = [0, job.copy.size]
        self.numbers: Set[int] = set()
        self.outstanding = 0  # units under way
        self.waiting = 0  # lists of units that are not handed out yet
        self.error: Optional[BaseException] = None
        self.cleaning = False


class Engine:
    """One transfer. `done` hears of each file that is whole at its place, `failed` of each that is lost;
    `renewed` gets new credentials, or None.
    """

    def __init__(
        self,
        crew: Crew,
        tally: Tally,
        cancel: threading.Event,
        done: Callable[[Copy], None],
        failed: Callable[[Copy, Exception], None],
        renewed: Callable[[], Optional[Credentials]],
        count_outcomes: bool,
    ) -> None:
        self._crew, self._tally, self._cancel = crew, tally, cancel
        self._done, self._failed, self._renewed = done, failed, renewed
        self._count_outcomes = count_outcomes
        self.whole = self.retries = 0
        self._ready: Deque[Tuple[Running, Iterator[Unit]]] = deque()
        self._known: Dict[int, Tuple[Running, Unit, int]] = {}  # by unit: its job, itself, its epoch
        self._ends: Set[int] = set()  # the last unit of each batch that is under way
        self._epoch = 0

    def run(self, jobs: Iterable[Job], left: int) -> None:
        """Carries all of them out; `left` is their number. Raises `Cancelled` soon after it is asked to."""
        source = iter(jobs)
        while True:
            if self._cancel.is_set():
                raise Cancelled("the transfer was given up")
            while len(self._ends) < self._crew.room:
                batch = self._batch(source, batch_limit(left, self._crew.room))
                if not batch:
                    break
                left -= len(batch)
                self._ends.add(batch[-1].number)
                self._crew.submit(batch)
            if not self._ends:
                return
            for outcome in self._crew.outcomes(LOOK_SECONDS):
                self._ends.discard(outcome.number)
                self._heard(outcome)

    def _batch(self, source: Iterator[Job], limit: int) -> Batch:
        """The next units, together not too many bytes; files that cannot even begin fail on the way."""
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
        while True:
            while self._ready:
                running, units = self._ready[0]
                unit = next(units, None) if running.error is None or running.cleaning else None
                if unit is not None:
                    return self._out(running, unit)
                self._ready.popleft()
                running.waiting -= 1
                self._settle(running)
            job = next(source, None)
            if job is None:
                return None
            self._more(Running(job), job.begin)

    def _out(self, running: Running, unit: Unit) -> Unit:
        running.outstanding += 1
        running.numbers.add(unit.number)
        self._known[unit.number] = (running, unit, self._epoch)
        self._tally.begin(unit.number, running.account)
        return unit

    def _more(self, running: Running, units: Callable[[], Iterable[Unit]]) -> None:
        """What a job wants next; one that fails here has failed."""
        try:
            wanted = units()
        except (PathMappingError, OSError) as error:
            running.error = running.error or error
            wanted = ()
        if wanted == ():
            self._settle(running)
        else:
            self._wait(running, iter(wanted))

    def _wait(self, running: Running, units: Iterator[Unit]) -> None:
        running.waiting += 1
        self._ready.append((running, units))

    def _heard(self, outcome: Outcome) -> None:
        running, unit, epoch = self._known.pop(outcome.number)
        self.retries += outcome.retries
        running.outstanding -= 1
        error = outcome.error
        if self._cancel.is_set():
            return
        if isinstance(error, Expired) and self._again(epoch):
            self._wait(running, iter((unit,)))
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
            self._settle(running)
        else:
            self._more(running, lambda: running.job.took(unit, outcome))

    def _again(self, epoch: int) -> bool:
        """True when there are newer credentials than those that a request was signed with."""
        if epoch == self._epoch:
            keys = self._renewed()
            if keys is None:
                return False
            self._crew.use(keys)
            self._epoch += 1
        return True

    def _settle(self, running: Running) -> None:
        """Ends a job of which nothing is under way, and nothing waits."""
        if running.outstanding or running.waiting:
            return
        if running.error is not None and not running.cleaning:
            running.cleaning = True
            error = running.error
            self._more(running, lambda: running.job.failed(error))
            return
        self._tally.end(running.numbers, running.account)
        if running.error is None:
            self.whole += 1
            self._done(running.job.copy)
        elif isinstance(running.error, Exception):
            self._failed(running.job.copy, running.error)
