"""Moves the files of one transfer: chooses the pool by the amount of work and the round trip time."""

from __future__ import annotations

import itertools
import os
import threading
import time
from contextlib import contextmanager
from typing import Callable, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from path_mapping.planning import Copy
from path_mapping.stores import Credentials, SignedAccess, Store
from path_mapping.transfer.jobs import Job
from path_mapping.transfer.parts import DOWN_ABREAST, MIB, RANGE, PoolSize, is_small, pool_size
from path_mapping.transfer.progress import Progress, Tally
from path_mapping.transfer.scheduler import Scheduler
from path_mapping.workers import Pool, RetryPolicy, Troubled, start_pool, start_store_thread, untold

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


class StoreAccess:
    """How a transfer reaches the store: by signed requests with `access`; if that is None, by its methods.

    `patience` is for its requests, and `troubled` is called when one is retried.
    """

    def __init__(
        self,
        store: Store,
        patience: RetryPolicy = RetryPolicy(),  # noqa: B008 -- a frozen value
        troubled: Troubled = untold,
    ) -> None:
        self.store = store
        self.patience, self.troubled = patience, troubled
        self.access = store.access() if isinstance(store, SignedAccess) else None

    def renewed(self, pause: Optional[Callable[[float], bool]]) -> Optional[Credentials]:
        """Newer credentials than those of `access`, see `SignedAccess.renewed`; None if there are none."""
        if self.access is None or not isinstance(self.store, SignedAccess):
            return None
        if not self.store.renewed(self.access.credentials, pause):
            return None
        self.access = self.store.access()
        return None if self.access is None else self.access.credentials


def move_files(
    work: Work, via: StoreAccess, cancel: threading.Event, progress: Callable[[Progress], None]
) -> Tuple[int, int]:
    """Moves all files; returns the number of complete files, and of retried requests.

    Raises:
        Cancelled: soon after `cancel` is set.
        WorkersLost: all worker processes died.
    """
    pieces = work.files + work.size // RANGE
    tally = Tally(work.files, work.size, progress, cancel)
    tally.report()
    number = itertools.count().__next__
    whole = retries = 0
    round_trip = 0.0

    @contextmanager
    def scheduler(size: PoolSize) -> Iterator[Scheduler]:
        nonlocal whole, retries
        pool = _started(via, size, cancel, tally)
        running: Optional[Scheduler] = None
        try:
            running = Scheduler(
                pool, tally, cancel, work.done, work.failed, via.renewed, size.processes > 0,
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
    if via.access is not None and not is_small(pieces, work.size):
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


def _started(via: StoreAccess, size: PoolSize, cancel: threading.Event, tally: Tally) -> Pool:
    if via.access is None:
        return start_store_thread(via.store, cancel, tally.moved, via.patience, via.troubled)
    return start_pool(
        via.access, size.processes, size.threads, size.ahead, tally.moved, via.patience, via.troubled
    )


def _smallest(copies: Sequence[Copy]) -> List[Copy]:
    """Small files to measure the round trip time with, if there are any."""
    small = [copy for copy in copies if copy.size < MIB]
    return sorted(small, key=lambda copy: copy.size)[:PROBES]
