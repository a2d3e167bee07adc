"""An event loop that runs the units of a transfer as tasks: many requests at once in one thread."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
import os
import select
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Coroutine
from functools import partial
from typing import Any, Callable, List, NamedTuple

from path_mapping.errors import NoWorkers, SlowDown, StoreError, Unreachable
from path_mapping.stores.units import Unit
from path_mapping.stores.waits import Elsewhere, Ready, Wait, pause
from path_mapping.workers.rate_limit import RateLimit
from path_mapping.workers.retry import RetriedStore
from path_mapping.workers.side_thread import SideThread

# Seconds; max. wait for the side threads at the end.
END_SECONDS = 1.0
# Outcomes that are reported together, as long as there is other work, and seconds after which they are.
TOGETHER = 16
TOGETHER_SECONDS = 0.05
# All events: of which of them a task waits does not matter, as it tries again.
_EVENTS = select.EPOLLIN | select.EPOLLOUT | select.EPOLLET


class Outcome(NamedTuple):
    """Result or error of a unit, and the number of its retries."""

    number: int
    value: Any
    error: BaseException | None
    retries: int


Outcomes = List[Outcome]
# Called with the number of a unit, and with the number of its bytes that were moved.
Moved = Callable[[int, int], None]


class Pool(ABC):
    """Runs units, of which outcomes come in any order; used by one thread."""

    @abstractmethod
    def wanted(self, left: int) -> int:
        """Returns the number of units to submit next, 0 for none; `left` files have not begun."""

    @abstractmethod
    def submit(self, units: list[Unit]) -> None:
        """Hands over units; returns at once."""

    @abstractmethod
    def outcomes(self, seconds: float) -> Outcomes:
        """Returns the outcomes since the last call; waits at most `seconds` for the first.

        Raises `WorkersLost` if no worker is left.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends all work at once."""


class _Slot:
    """Place for a task, and its wait; times are in seconds of `time.monotonic`."""

    __slots__ = ("due", "in_heap", "task", "waits")

    def __init__(self) -> None:
        self.task: Coroutine[Wait, Any, Outcome] | None = None
        self.waits: Wait | None = None
        # When the wait is over, and the time at which the heap has the slot.
        self.due = self.in_heap = math.inf


class Loop(Pool):
    """A pool in this process: it works while `outcomes` is called, in the calling thread.

    A cancelled task ends where it waits. `moved` is called when bytes of a unit have moved, and `slowed` with
    the Retry-After of each SlowDown, if it has one.
    """

    def __init__(
        self,
        to: RetriedStore,
        connections: int,
        moved: Moved = lambda number, size: None,
        slowed: Callable[[float | None], None] = lambda after: None,
    ) -> None:
        self._moved, self._slowed = moved, slowed
        self._closing = threading.Event()
        # With an event of its own, which `close` sets.
        self._to = RetriedStore(to.store, self._closing, to.patience, to.troubled)
        self._rate = RateLimit()
        self._waiting: deque[Unit] = deque()
        self._slots = [_Slot() for _ in range(connections)]
        self._free = list(self._slots)
        # By descriptor: the slot whose task waits for its line.
        self._lines: dict[int, _Slot] = {}
        # By descriptor: what is called when it can be read.
        self._readers: dict[int, Callable[[], None]] = {}
        self._heap: list[tuple[float, int, _Slot]] = []
        self._order = itertools.count()
        self._done: Outcomes = []
        self._failed: BaseException | None = None
        self._data, self._slow = SideThread("transfer-data"), SideThread("transfer-slow")
        # Results of the side threads, and a pipe that wakes the loop up for them.
        self._results: deque[tuple[_Slot, Any]] = deque()
        try:
            self._epoll = select.epoll()
            self._woken, self._wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise NoWorkers(f"no event loop can be started for the transfer: {error}") from error
        self.watch(self._woken, self._take_results)
        self._runner = self._to.store.runner(self._closing)

    def wanted(self, left: int) -> int:
        """See `Pool.wanted`. As many as it works at."""
        return len(self._free) - len(self._waiting)

    def watch(self, descriptor: int, read: Callable[[], None]) -> None:
        """Calls `read`, which does not block, when a descriptor can be read."""
        self._readers[descriptor] = read
        self._epoll.register(descriptor, select.EPOLLIN)

    def submit(self, units: list[Unit]) -> None:
        self._waiting.extend(units)

    def slower(self, after: float | None) -> None:
        """Lowers the rate after a SlowDown."""
        self._rate.refused(time.monotonic(), after)

    def outcomes(self, seconds: float) -> Outcomes:
        """See `Pool.outcomes`. A few are reported together."""
        now = time.monotonic()
        end, together = now + seconds, now + TOGETHER_SECONDS
        while True:
            self._begin()
            if self._failed is not None:
                raise self._failed
            if self._done and (not self._waiting or len(self._done) >= TOGETHER or now >= together):
                break
            if now >= end:
                break
            self._turn(end if not self._done else together, now)
            now = time.monotonic()
        done, self._done = self._done, []
        return done

    def _begin(self) -> None:
        """Begins units as long as there is a slot."""
        while self._waiting and self._free:
            slot = self._free.pop()
            slot.task = self._unit(self._waiting.popleft())
            self._resume(slot, None)

    async def _unit(self, unit: Unit) -> Outcome:
        retries = 0
        moved = partial(self._moved, unit.number)

        def failed(error: Unreachable) -> None:
            nonlocal retries
            retries += 1
            if isinstance(error, SlowDown):
                self.slower(error.after)
                self._slowed(error.after)

        async def attempt() -> Any:
            seconds = self._rate.delay(time.monotonic())
            if seconds > 0:
                import random  # slow to import

                await pause(seconds * random.uniform(1.0, 1.2))
            return await self._runner.run(unit, moved)

        try:
            value = await self._to.retrying_task(attempt, failed)
            return Outcome(unit.number, value, None, retries)
        except (StoreError, OSError) as error:
            return Outcome(unit.number, None, await self._runner.given_up(unit, error), retries)
        except Exception as error:  # raised again by whoever takes the outcome, unless it is of this file
            return Outcome(unit.number, None, error, retries)

    def _turn(self, end: float, now: float) -> None:
        """Waits for events, at most until `end`, and resumes the tasks that have waited for them."""
        next_due = self._heap[0][0] if self._heap else end
        for descriptor, events in self._epoll.poll(max(0.0, min(end, next_due) - now)):
            slot = self._lines.pop(descriptor, None)
            if slot is not None:
                self._resume(slot, events)
            elif descriptor in self._readers:
                self._readers[descriptor]()
        now = time.monotonic()
        while self._heap and self._heap[0][0] <= now:
            time_, _, slot = heapq.heappop(self._heap)
            if time_ == slot.in_heap:  # else it is there once more, earlier
                slot.in_heap = math.inf
                self._time_out(slot, now)

    def _time_out(self, slot: _Slot, now: float) -> None:
        """Resumes a task whose wait is over; one that waits anew goes into the heap again."""
        waits = slot.waits
        if waits is None or isinstance(waits, Elsewhere):
            return
        if slot.due > now:
            self._into_heap(slot)
            return
        if isinstance(waits, Ready):
            self._lines.pop(waits.line.socket.fileno(), None)
        self._resume(slot, 0)

    def _into_heap(self, slot: _Slot) -> None:
        """Makes the heap have the slot at its time or earlier: most waits are over long before."""
        if slot.due < slot.in_heap:
            slot.in_heap = slot.due
            heapq.heappush(self._heap, (slot.due, next(self._order), slot))

    def _resume(self, slot: _Slot, answer: Any) -> None:
        """Runs a task until its next wait, or its end."""
        task, slot.waits = slot.task, None
        assert task is not None
        try:
            slot.waits = task.throw(answer) if isinstance(answer, BaseException) else task.send(answer)
        except StopIteration as end:
            self._done.append(end.value)
        except BaseException as error:
            self._failed = self._failed or error
        if slot.waits is None:
            slot.task = None
            self._free.append(slot)
        else:
            self._wait(slot, slot.waits)

    def _wait(self, slot: _Slot, wait: Wait) -> None:
        if isinstance(wait, Elsewhere):
            thread = self._slow if wait.slow else self._data
            thread.do(wait.work, partial(self._finished, slot))
            return
        if isinstance(wait, Ready):
            line = wait.line
            descriptor = line.socket.fileno()
            self._lines[descriptor] = slot
            if not line.watched:
                line.watched = True
                self._epoll.register(descriptor, _EVENTS)
        slot.due = time.monotonic() + wait.seconds
        self._into_heap(slot)

    def _finished(self, slot: _Slot, result: Any) -> None:
        """Passes the result of a thread on; called in its thread."""
        self._results.append((slot, result))
        self.wake()

    def wake(self) -> None:
        """Makes the loop take another turn; for other threads."""
        with contextlib.suppress(BlockingIOError):  # it is awake
            os.write(self._wakes, b"x")

    def _take_results(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 1 << 10)
        while self._results:
            self._resume(*self._results.popleft())

    def close(self) -> None:
        """See `Pool.close`. A task whose thread cannot be interrupted is abandoned, with its file."""
        self._closing.set()
        self._waiting.clear()
        ended = {thread: thread.close(END_SECONDS) for thread in (self._data, self._slow)}
        for slot in self._slots:
            waits = slot.waits
            if slot.task is not None and (
                not isinstance(waits, Elsewhere) or ended[self._slow if waits.slow else self._data]
            ):
                slot.task.close()
        if all(ended.values()):
            self._runner.close()
            os.close(self._wakes)
            os.close(self._woken)
        self._epoll.close()
