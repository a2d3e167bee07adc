"""Threads that run units, and the rate limit that the service asks for."""

from __future__ import annotations

import queue
import random
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from typing import Any, Callable, List, NamedTuple

from path_mapping.errors import NoWorkers, SlowDown, StoreError, Unreachable
from path_mapping.stores.http_connection import OpenConnections
from path_mapping.stores.units import Unit, UnitRunner
from path_mapping.workers.retry import RetriedStore

# Requests per second of one process: the limit never falls below this.
LOWEST = 0.5
# Seconds; refusals within this time are one, as their requests were in flight together.
BURST_SECONDS = 0.5
# Growth of the limit per second, as a share of the rate before the first refusal.
GROWTH = 0.1
# The limit is dropped at so many times the rate before the first refusal.
FREE_AGAIN = 2.0


class RateLimit:
    """Rate limit as a function of events, without a clock; times are in seconds. No limit at first."""

    def __init__(self) -> None:
        self.limit: float | None = None
        # The rate before the first refusal.
        self._best = 0.0
        self._refused = float("-inf")
        self._grown = 0.0
        self._next = 0.0
        self._window, self._begun, self._seen = 0.0, 0, 0.0

    def delay(self, now: float) -> float:
        """Counts a request; returns the seconds that it has to wait first."""
        if now - self._window >= 1.0:
            self._seen = self._begun / (now - self._window)
            self._window, self._begun = now, 0
        self._begun += 1
        self._grow(now)
        start = max(self._next, now)
        if self.limit is not None:
            self._next = start + 1.0 / self.limit
        return start - now

    def refused(self, now: float, after: float | None) -> None:
        """Lowers the limit after a SlowDown; `after` is its Retry-After in seconds, if any."""
        self._next = max(self._next, now + (after or 0.0))
        if now - self._refused < BURST_SECONDS:
            return
        if self.limit is None:
            self._best = self.limit = max(self._seen, self._begun / max(now - self._window, 0.1), 2 * LOWEST)
        self.limit = max(LOWEST, self.limit / 2)
        self._refused = now
        self._grown = now + BURST_SECONDS

    def _grow(self, now: float) -> None:
        """Raises the limit for the time without a refusal, and drops it in the end."""
        if self.limit is None or now <= self._grown:
            return
        self.limit += (now - self._grown) * GROWTH * self._best
        self._grown = now
        if self.limit > FREE_AGAIN * self._best:
            self.limit = None


class RateLimiter:
    """A `RateLimit` for all threads of a process; `report` passes each refusal on to other processes."""

    def __init__(self, report: Callable[[float | None], None] = lambda after: None) -> None:
        self._rate = RateLimit()
        self._lock = threading.Lock()
        self._report = report

    @property
    def limits(self) -> bool:
        """True while the service limits the rate."""
        return self._rate.limit is not None

    def wait(self, cancel: threading.Event) -> None:
        """Returns when the next request may begin, or `cancel` is set."""
        with self._lock:
            seconds = self._rate.delay(time.monotonic())
        if seconds > 0:
            cancel.wait(seconds * random.uniform(1.0, 1.2))

    def refused(self, after: float | None) -> None:
        """Lowers the limit after a SlowDown for this process, and reports it."""
        self.slower(after)
        self._report(after)

    def slower(self, after: float | None) -> None:
        """Lowers the limit after a SlowDown for another process."""
        with self._lock:
            self._rate.refused(time.monotonic(), after)


# Seconds; max. wait for the threads at the end.
END_SECONDS = 1.0
# Exit code of a worker process that cannot start its threads.
NO_THREADS = 73


class Outcome(NamedTuple):
    """Result or error of a unit, and the number of its retries."""

    number: int
    value: Any
    error: BaseException | None
    retries: int


Batch = List[Unit]
Outcomes = List[Outcome]
# Called with the number of a unit, and with the number of its bytes that were moved.
Moved = Callable[[int, int], None]


class Pool(ABC):
    """Threads or processes that run batches of units; used by one thread.

    `room` is the number of batches in progress that keeps every worker busy. Each thread requests so many
    units of its batch `ahead` of the one that it runs.
    """

    room: int
    ahead: int

    @abstractmethod
    def submit(self, batch: Batch) -> None:
        """Hands over a batch; returns at once."""

    @abstractmethod
    def outcomes(self, seconds: float) -> Outcomes:
        """Returns the outcomes since the last call; waits at most `seconds` for the end of a batch.

        Raises `WorkersLost` if no worker is left.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends all work at once."""


class ThreadPool(Pool):
    """A pool in this process. `moved` is called, in any thread, when bytes of a unit have moved."""

    def __init__(
        self,
        to: RetriedStore,
        threads: int,
        ahead: int,
        moved: Moved = lambda number, size: None,
        limiter: RateLimiter | None = None,
    ) -> None:
        self.room = threads + max(1, threads // 2) if threads > 1 else 1
        self.ahead = ahead
        self._connections = OpenConnections()
        self._moved = moved
        self._limiter = limiter or RateLimiter()
        self._batches: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._done: deque[Outcome] = deque()
        # Set at the end of a batch; to wake up a thread for each unit would cost too much.
        self._ended = threading.Event()
        # With an event of its own, which `close` sets.
        self._to = RetriedStore(to.store, None, to.patience, to.troubled)
        self._threads = [
            threading.Thread(target=self._work, name=f"transfer-{index}", daemon=True)
            for index in range(threads)
        ]
        self._start()

    def _start(self) -> None:
        """Starts the threads, or as many as the machine permits, but at least one."""
        for started, thread in enumerate(self._threads):
            try:
                thread.start()
            except RuntimeError as error:  # the limit of threads of the user or container is reached
                if not started:
                    raise NoWorkers(f"no thread can be started for the transfer: {error}") from error
                self._threads = self._threads[:started]
                return

    def submit(self, batch: Batch) -> None:
        self._batches.put(batch)

    def outcomes(self, seconds: float) -> Outcomes:
        self._ended.wait(seconds)
        # Before the outcomes are read: a batch that ends later wakes up the next call.
        self._ended.clear()
        return [self._done.popleft() for _ in range(len(self._done))]

    def close(self) -> None:
        """See `Pool.close`. A thread in a call that cannot be interrupted is abandoned: it is a daemon."""
        self._to.cancel.set()
        self._connections.shut()
        for _ in self._threads:
            self._batches.put(None)
        deadline = time.monotonic() + END_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        try:
            runner = self._to.store.runner(self._connections)
        except BaseException as error:  # raised again in the thread that waits for an outcome
            for batch in iter(self._batches.get, None):
                self._done.extend(Outcome(unit.number, None, error, 0) for unit in batch)
                self._ended.set()
            return
        try:
            for batch in iter(self._batches.get, None):
                if self._to.cancel.is_set():
                    return
                for index in range(len(batch)):
                    self._done.append(self._outcome(runner, batch, index))
                self._ended.set()
        finally:
            runner.close()

    def _outcome(self, runner: UnitRunner, batch: Batch, index: int) -> Outcome:
        unit, retries = batch[index], 0

        def failed(error: Unreachable) -> None:
            nonlocal retries
            retries += 1
            if isinstance(error, SlowDown):
                self._limiter.refused(error.after)

        def attempt() -> Any:
            self._limiter.wait(self._to.cancel)
            return runner.run(unit, lambda size: self._moved(unit.number, size))

        try:
            self._to.check()
            if self.ahead and not self._limiter.limits:
                runner.ask_ahead(batch[index + self.ahead if index else 0 : index + self.ahead + 1])
            value = self._to.retrying(attempt, failed)
            return Outcome(unit.number, value, None, retries)
        except (StoreError, OSError) as error:
            return Outcome(unit.number, None, runner.given_up(unit, error), retries)
        except BaseException as error:  # raised again in the thread that waits for the outcome
            return Outcome(unit.number, None, error, retries)
