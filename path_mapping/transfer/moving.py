"""Moves the files of one transfer: chooses the pool by the amount of work and the round trip time."""

from __future__ import annotations

import itertools
import os
import time
from contextlib import contextmanager
from typing import Callable, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from path_mapping.planning import Copy
from path_mapping.transfer.jobs import Job
from path_mapping.transfer.parts import DOWN_ABREAST, MIB, RANGE, PoolSize, is_small, pool_size
from path_mapping.transfer.progress import Progress, Tally
from path_mapping.transfer.scheduler import Scheduler
from path_mapping.workers import RetriedStore, start_pool

PROBES = 2  # small files that go first, one by one: the time of the second is the round trip time
PROBED = 500  # files among which the smallest are searched


class Work(NamedTuple):
    """The files to move, their number and bytes, and what makes a file a job, given a counter for its units.

    `done` is called with each file that is complete, `failed` with each that is not. `down`: downloads.
    """

    copies: Iterator[Copy]
    files: int
    size: int
    job_of: Callable[[Copy, Callable[[], int]], Job]
    done: Callable[[Copy], None]
    failed: Callable[[Copy, Exception], None]
    down: bool = False


def move_files(work: Work, to: RetriedStore, progress: Callable[[Progress], None]) -> Tuple[int, int]:
    """Moves all files; returns the number of complete files, and of retried requests.

    Raises:
        Cancelled: soon after `cancel` of the store is set.
        WorkersLost: all worker processes died.
    """
    pieces = work.files + work.size // RANGE
    tally = Tally(work.files, work.size, progress, to.cancel)
    tally.report()
    number = itertools.count().__next__
    whole = retries = 0
    round_trip = 0.0

    @contextmanager
    def scheduler(size: PoolSize) -> Iterator[Scheduler]:
        nonlocal whole, retries
        pool = start_pool(to, size.processes, size.threads, size.ahead, tally.moved)
        running: Optional[Scheduler] = None
        try:
            running = Scheduler(
                pool, tally, to.cancel, work.done, work.failed, size.processes > 0,
                DOWN_ABREAST if work.down else 1,
            )  # fmt: skip
            yield running
            whole, retries = whole + running.whole, retries + running.retries
        finally:
            pool.close()
            if running is not None:
                running.close()

    def jobs(copies: Iterable[Copy]) -> Iterator[Job]:
        return (work.job_of(copy, number) for copy in copies)

    copies, left = work.copies, work.files
    if to.store.signer is not None and not is_small(pieces, work.size):
        near = list(itertools.islice(copies, PROBED))
        probes = _smallest(near)
        copies = itertools.chain((copy for copy in near if copy not in probes), copies)
        left -= len(probes)
        with scheduler(PoolSize(0, 1)) as alone:
            for probe in probes:
                begun = time.monotonic()
                alone.run(jobs([probe]), 1)
                round_trip = time.monotonic() - begun
    if left:
        size = pool_size(pieces, work.size, len(os.sched_getaffinity(0)), round_trip, work.down)
        with scheduler(size) as all_of_them:
            all_of_them.run(jobs(copies), left)
    return whole, retries


def _smallest(copies: Sequence[Copy]) -> List[Copy]:
    """Small files to measure the round trip time with, if there are any."""
    small = [copy for copy in copies if copy.size < MIB]
    return sorted(small, key=lambda copy: copy.size)[:PROBES]
