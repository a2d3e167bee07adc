"""Threads that run units: each takes a batch, runs its units in turn, and reports their outcomes."""

from __future__ import annotations

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from typing import Any, Callable, Deque, List, NamedTuple, Optional

from path_mapping.errors import Cancelled, NoWorkers, SlowDown, StoreError, Unreachable
from path_mapping.stores import Store, Unit, UnitRunner
from path_mapping.workers.rate_limit import RateLimiter
from path_mapping.workers.retry import RetryPolicy, Troubled, ignore_retry, retrying

END_SECONDS = 1.0
NO_THREADS = 73  # the exit code of a worker process that cannot start its threads


class Outcome(NamedTuple):
    """The result of a unit, or the error it ended with, and the number of retries."""

    number: int
    value: Any
    error: Optional[BaseException]
    retries: int


Batch = List[Unit]
Outcomes = List[Outcome]
Moved = Callable[[int, int], None]  # the number of a unit, and of its bytes that were moved


class Pool(ABC):
    """Threads or processes that run batches of units; used by one thread.

    `room` is the number of batches in progress that keeps every worker busy. Each thread asks for so many
    units of its batch `ahead` of the one that it runs.
    """

    room: int
    ahead: int

    @abstractmethod
    def submit(self, batch: Batch) -> None:
        """Hands over a batch; returns at once."""

    @abstractmethod
    def outcomes(self, seconds: float) -> Outcomes:
        """The outcomes since the last call; waits at most `seconds` for the end of a batch.

        Raises:
            WorkersLost: no worker is left.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends everything at once, whatever is in progress."""


class ThreadPool(Pool):
    """A pool in this process. `moved` is called, in any thread, when bytes of a unit have moved."""

    def __init__(
        self,
        store: Store,
        threads: int,
        ahead: int,
        moved: Moved,
        limiter: RateLimiter,
        patience: RetryPolicy = RetryPolicy(),  # noqa: B008 -- a frozen value
        troubled: Troubled = ignore_retry,
    ) -> None:
        self.room = threads + max(1, threads // 2) if threads > 1 else 1
        self.ahead = ahead
        self._runners = store.runners()
        self._moved = moved
        self._limiter = limiter
        self._patience = patience
        self._troubled = troubled
        self._batches: queue.SimpleQueue[Optional[Batch]] = queue.SimpleQueue()
        self._done: Deque[Outcome] = deque()
        self._ended = threading.Event()  # a batch: nobody is woken up for each unit
        self._cancel = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, name=f"transfer-{index}", daemon=True)
            for index in range(threads)
        ]
        self._start()

    def _start(self) -> None:
        """Starts the threads, or as many of them as the machine lets, but at least one."""
        for begun, thread in enumerate(self._threads):
            try:
                thread.start()
            except RuntimeError as error:  # the limit of threads, of the user or of the container
                if not begun:
                    raise NoWorkers(f"no thread can be started for the transfer: {error}") from error
                self._threads = self._threads[:begun]
                return

    def submit(self, batch: Batch) -> None:
        self._batches.put(batch)

    def outcomes(self, seconds: float) -> Outcomes:
        self._ended.wait(seconds)
        self._ended.clear()  # before the look: what ends after it wakes up the next call
        return [self._done.popleft() for _ in range(len(self._done))]

    def close(self) -> None:
        """See `Pool.close`. A thread in a call that cannot be interrupted is left behind: it is a daemon."""
        self._cancel.set()
        self._runners.shut()
        for _ in self._threads:
            self._batches.put(None)
        deadline = time.monotonic() + END_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        try:
            runner = self._runners.new()
        except BaseException as error:  # raised again in the thread that waits for an outcome
            for batch in iter(self._batches.get, None):
                self._done.extend(Outcome(unit.number, None, error, 0) for unit in batch)
                self._ended.set()
            return
        try:
            for batch in iter(self._batches.get, None):
                if self._cancel.is_set():
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
            self._limiter.wait(self._cancel)
            return runner.run(unit, lambda size: self._moved(unit.number, size))

        try:
            if self._cancel.is_set():
                raise Cancelled
            if self.ahead and not self._limiter.limits:
                runner.ask_ahead(batch[index + self.ahead if index else 0 : index + self.ahead + 1])
            value = retrying(attempt, self._cancel, self._patience, failed, self._troubled)
            return Outcome(unit.number, value, None, retries)
        except (StoreError, OSError) as error:
            return Outcome(unit.number, None, runner.given_up(unit, error), retries)
        except BaseException as error:  # raised again in the thread that waits for the outcome
            return Outcome(unit.number, None, error, retries)
