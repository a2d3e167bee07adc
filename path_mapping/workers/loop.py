"""An event loop that runs the units of a transfer as tasks: many requests at once in one thread."""

from __future__ import annotations

import math
import time
from collections import deque
from typing import Any, Callable

from path_mapping.errors import NoWorkers
from path_mapping.stores.units import Unit
from path_mapping.stores.waits import Elsewhere, Ready, Wait
from path_mapping.workers.loop_waits import DueTimes, Slot, SocketEvents
from path_mapping.workers.pool import Moved, Outcomes, Pool
from path_mapping.workers.retry import RetriedStore
from path_mapping.workers.side_thread import SideThreads
from path_mapping.workers.unit_tasks import UnitTasks

# Seconds; max. wait for the side threads at the end.
END_SECONDS = 1.0
# Outcomes that are reported together, as long as there is other work, and seconds after which they are.
TOGETHER = 16
TOGETHER_SECONDS = 0.05


class Loop(Pool):
    """A pool in this process: it works while `outcomes` is called, in the calling thread.

    A cancelled task ends where it waits. For `moved` and `slowed` see `UnitTasks`.
    """

    def __init__(
        self,
        to: RetriedStore,
        connections: int,
        moved: Moved = lambda number, size: None,
        slowed: Callable[[float | None], None] = lambda after: None,
    ) -> None:
        try:
            self._events, self._threads = SocketEvents(), SideThreads()
        except OSError as error:
            raise NoWorkers(f"no event loop can be started for the transfer: {error}") from error
        self.watch(self._threads.fileno(), self._take_results)
        self._tasks = UnitTasks(to, moved, slowed)
        self._due = DueTimes()
        self._waiting: deque[Unit] = deque()
        self._slots = [Slot() for _ in range(connections)]
        self._free = list(self._slots)
        self._done: Outcomes = []
        self._failed: BaseException | None = None

    def wanted(self, left: int) -> int:
        """See `Pool.wanted`. As many as it works at."""
        return len(self._free) - len(self._waiting)

    def watch(self, descriptor: int, read: Callable[[], None]) -> None:
        """See `SocketEvents.watch`."""
        self._events.watch(descriptor, read)

    def submit(self, units: list[Unit]) -> None:
        self._waiting.extend(units)

    def slower(self, after: float | None) -> None:
        """Lowers the rate after a SlowDown."""
        self._tasks.slower(after)

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
            slot.task = self._tasks.run(self._waiting.popleft())
            self._resume(slot, None)

    def _turn(self, end: float, now: float) -> None:
        """Waits for events, at most until `end`, and resumes the tasks that have waited for them."""
        for slot, events in self._events.poll(min(end, self._due.first()) - now):
            self._resume(slot, events)
        for slot in self._due.passed(time.monotonic()):
            if isinstance(slot.waits, Ready):
                self._events.forget(slot.waits.line)
            self._resume(slot, 0)

    def _resume(self, slot: Slot, answer: Any) -> None:
        """Runs a task until its next wait, or its end."""
        task, slot.waits, slot.due = slot.task, None, math.inf
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

    def _wait(self, slot: Slot, wait: Wait) -> None:
        if isinstance(wait, Elsewhere):
            self._threads.do(wait, slot)
            return
        if isinstance(wait, Ready):
            self._events.wait_for(wait.line, slot)
        slot.due = time.monotonic() + wait.seconds
        self._due.add(slot)

    def _take_results(self) -> None:
        for slot, result in self._threads.results():
            self._resume(slot, result)

    def close(self) -> None:
        """See `Pool.close`. A task whose thread cannot be interrupted is abandoned, with its file."""
        self._tasks.stop()
        self._waiting.clear()
        running = self._threads.end(END_SECONDS)
        for slot in self._slots:
            waits = slot.waits
            if slot.task is not None and not (isinstance(waits, Elsewhere) and waits.slow in running):
                slot.task.close()
        if not running:
            self._tasks.close()
        self._events.close()
