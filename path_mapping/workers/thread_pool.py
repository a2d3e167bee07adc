"""Threads that carry out units: each takes a batch, does its units in turn, and hands back outcomes."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any, Callable, List, Optional, Protocol

from path_mapping.errors import Cancelled, SlowDown, Unreachable
from path_mapping.stores import Credentials
from path_mapping.stores.units import Batch, Outcome, Unit
from path_mapping.workers.rate_limit import Pace
from path_mapping.workers.retry import retrying

END_SECONDS = 1.0

Outcomes = List[Outcome]


class Path(Protocol):
    """How one thread carries units out."""

    def do(self, unit: Unit, moved: Callable[[int], None]) -> Any:
        """The unit's value; raises what is wrong with it."""

    def close(self) -> None:
        """Gives back what it holds."""


class Crew(Protocol):
    """Who works, wherever; used by one thread."""

    room: int  # batches that may be under way, so that nobody waits for work

    def submit(self, batch: Batch) -> None:
        """Hands a batch over; returns at once."""

    def outcomes(self, seconds: float) -> Outcomes:
        """What was done meanwhile; waits at most so long for the first."""

    def use(self, keys: Credentials) -> None:
        """Signs with these from now on."""

    def close(self) -> None:
        """Ends everything at once, whatever is under way."""


class Threads:
    """A crew in this process. `moved` hears, in any thread, of bytes of a unit that have gone."""

    def __init__(
        self,
        number: int,
        new_path: Callable[[], Path],
        moved: Callable[[int, int], None],
        pace: Pace,
        renew: Callable[[Credentials], None] = lambda keys: None,
        end: Callable[[], None] = lambda: None,
    ) -> None:
        self.room = number + max(1, number // 2) if number > 1 else 1
        self._new_path = new_path
        self._moved = moved
        self._pace = pace
        self._end = end
        self.use = renew
        self._batches: queue.SimpleQueue[Optional[Batch]] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Outcomes] = queue.SimpleQueue()
        self._cancel = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, name=f"transfer-{index}", daemon=True)
            for index in range(number)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, batch: Batch) -> None:
        """Hands a batch to the next thread that is free."""
        self._batches.put(batch)

    def outcomes(self, seconds: float) -> Outcomes:
        """What was done meanwhile."""
        found: Outcomes = []
        try:
            found += self._done.get(timeout=seconds)
            while True:
                found += self._done.get_nowait()
        except queue.Empty:
            return found

    def close(self) -> None:
        """Ends it; a thread in a call that cannot be ended is a daemon."""
        self._cancel.set()
        self._end()
        for _ in self._threads:
            self._batches.put(None)
        deadline = time.monotonic() + END_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        path = self._new_path()
        try:
            while True:
                batch = self._batches.get()
                if batch is None or self._cancel.is_set():
                    return
                self._done.put([self._outcome(path, unit) for unit in batch])
        finally:
            path.close()

    def _outcome(self, path: Path, unit: Unit) -> Outcome:
        retries = 0

        def failed(error: Unreachable) -> None:
            nonlocal retries
            retries += 1
            if isinstance(error, SlowDown):
                self._pace.refused(error.after)

        def attempt() -> Any:
            self._pace.wait(self._cancel)
            return path.do(unit, lambda size: self._moved(unit.number, size))

        try:
            if self._cancel.is_set():
                raise Cancelled("the transfer was given up")
            return Outcome(unit.number, retrying(attempt, self._cancel, failed), None, retries)
        except BaseException as error:  # carried to the thread that asked
            return Outcome(unit.number, None, error, retries)
