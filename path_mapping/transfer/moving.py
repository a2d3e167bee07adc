"""Moves the files of one transfer: chooses the crew by the work and the round trip, and pays it off."""

from __future__ import annotations

import itertools
import os
import threading
import time
from contextlib import contextmanager
from typing import Callable, Iterable, Iterator, List, NamedTuple, Optional, Sequence

from path_mapping.errors import PathMappingError
from path_mapping.planning import Copy
from path_mapping.stores import Credentials, Signing, Store
from path_mapping.stores.store_path import StorePath
from path_mapping.transfer.engine import Engine, Progress, Tally
from path_mapping.transfer.jobs import Job
from path_mapping.transfer.parts import MIB, RANGE, Size, crew_size, is_small
from path_mapping.workers.rate_limit import Pace
from path_mapping.workers.thread_pool import Crew, Threads

PROBES = 2  # small files that go first, one by one: the second one's time is that of a round trip
PROBED = 500  # files among which the smallest are looked for

JobOf = Callable[[Copy, Callable[[], int]], Job]


class Work(NamedTuple):
    """The files to move, taken one by one: how many, how many bytes in all, and the job of each.

    `done` hears of each file that is there, `failed` of each that cannot be.
    """

    copies: Iterator[Copy]
    files: int
    size: int
    job_of: JobOf
    done: Callable[[Copy], None]
    failed: Callable[[Copy, Exception], None]


class Moving:
    """A transfer's means: `access` is None where files go through the store itself, one after the other.

    After `run`, `whole` files are there, and `retries` requests had been made again.
    """

    def __init__(
        self,
        store: Store,
        cancel: threading.Event,
        progress: Callable[[Progress], None],
    ) -> None:
        self._store, self._cancel, self._progress = store, cancel, progress
        self.access = store.access() if isinstance(store, Signing) else None
        self.whole = self.retries = 0

    def run(self, work: Work) -> None:
        """Moves all files. Raises `Cancelled`."""
        pieces = work.files + work.size // RANGE
        tally = Tally(work.files, work.size, self._progress, self._cancel)
        tally.tell()
        number = itertools.count().__next__
        round_trip = 0.0

        def run(engine: Engine, some: Iterable[Copy], count: int) -> None:
            whole, retries = engine.whole, engine.retries
            engine.run((work.job_of(copy, number) for copy in some), count)
            self.whole += engine.whole - whole
            self.retries += engine.retries - retries

        copies, left = work.copies, work.files
        if self.access is not None and not is_small(pieces, work.size):
            near = list(itertools.islice(copies, PROBED))
            probes = _smallest(near)
            copies = itertools.chain((copy for copy in near if copy not in probes), copies)
            left -= len(probes)
            with self._engine(Size(0, 1), tally, work) as engine:
                for probe in probes:
                    begun = time.monotonic()
                    run(engine, [probe], 1)
                    round_trip = time.monotonic() - begun
        if left:
            wanted = crew_size(pieces, work.size, len(os.sched_getaffinity(0)), round_trip)
            with self._engine(wanted, tally, work) as engine:
                run(engine, copies, left)

    @contextmanager
    def _engine(self, size: Size, tally: Tally, work: Work) -> Iterator[Engine]:
        crew = self._crew(size, tally)
        try:
            yield Engine(crew, tally, self._cancel, work.done, work.failed, self._renewed, size.processes > 0)
        finally:
            crew.close()

    def _crew(self, size: Size, tally: Tally) -> Crew:
        if self.access is None:
            return Threads(1, lambda: StorePath(self._store, self._cancel), tally.moved, Pace())
        if size.processes:
            from path_mapping.workers.worker_processes import Processes

            return Processes(self.access, *size)
        from path_mapping.workers.worker_process import threads_on_the_data_path

        return threads_on_the_data_path(self.access, size.threads, tally.moved, Pace())

    def _renewed(self) -> Optional[Credentials]:
        """Credentials that are newer than those of `access`; None where there are none."""
        if self.access is None or not isinstance(self._store, Signing):
            return None
        before = self.access.credentials
        try:
            if self._store.access() == self.access and not self._store.renewed():
                return None
        except (PathMappingError, OSError):
            return None
        self.access = self._store.access()
        return None if self.access is None or self.access.credentials == before else self.access.credentials


def _smallest(copies: Sequence[Copy]) -> List[Copy]:
    """Files to measure a round trip with, if there are any small ones."""
    small = [copy for copy in copies if copy.size < MIB]
    return sorted(small, key=lambda copy: copy.size)[:PROBES]
