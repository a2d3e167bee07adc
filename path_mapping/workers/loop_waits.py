"""Waits of a loop's tasks for sockets and for times."""

from __future__ import annotations

import heapq
import itertools
import math
import select
from collections.abc import Coroutine, Iterator
from typing import Any, Callable

from path_mapping.stores.waits import NonBlockingSocket, Wait
from path_mapping.workers.pool import Outcome

# All events: of which of them a task waits does not matter, as it tries again.
_EVENTS = select.EPOLLIN | select.EPOLLOUT | select.EPOLLET


class Slot:
    """Place for a task, and its wait; times are in seconds of `time.monotonic`."""

    __slots__ = ("due", "in_heap", "task", "waits")

    def __init__(self) -> None:
        self.task: Coroutine[Wait, Any, Outcome] | None = None
        self.waits: Wait | None = None
        # When the wait is over, and the time at which the heap of `DueTimes` has the slot.
        self.due = self.in_heap = math.inf


class DueTimes:
    """Slots by the times at which their waits are over.

    Most waits are over long before. So a slot goes into the heap only if it is not there with an earlier
    time, and may be there with an outdated one.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Slot]] = []
        self._order = itertools.count()

    def add(self, slot: Slot) -> None:
        """Notes the time of a slot; none if it is infinite."""
        if slot.due < slot.in_heap:
            slot.in_heap = slot.due
            heapq.heappush(self._heap, (slot.due, next(self._order), slot))

    def first(self) -> float:
        """Returns the earliest time at which a wait may be over."""
        return self._heap[0][0] if self._heap else math.inf

    def passed(self, now: float) -> Iterator[Slot]:
        """Yields the slots whose waits are over. The caller may add others meanwhile."""
        while self._heap and self._heap[0][0] <= now:
            time, _, slot = heapq.heappop(self._heap)
            if time != slot.in_heap:  # it is there once more, earlier
                continue
            slot.in_heap = math.inf
            if slot.due <= now:
                yield slot
            else:
                self.add(slot)


class SocketEvents:
    """An epoll with the slots whose tasks wait for a socket, and functions that read other descriptors."""

    def __init__(self) -> None:
        """Raises `OSError` at the limit of open files."""
        self._epoll = select.epoll()
        # By descriptor.
        self._slots: dict[int, Slot] = {}
        self._readers: dict[int, Callable[[], None]] = {}

    def watch(self, descriptor: int, read: Callable[[], None]) -> None:
        """Calls `read`, which does not block, when a descriptor can be read."""
        self._readers[descriptor] = read
        self._epoll.register(descriptor, select.EPOLLIN)

    def wait_for(self, line: NonBlockingSocket, slot: Slot) -> None:
        """Notes a slot until the next event of a line."""
        descriptor = line.socket.fileno()
        self._slots[descriptor] = slot
        if not line.watched:
            line.watched = True
            self._epoll.register(descriptor, _EVENTS)

    def forget(self, line: NonBlockingSocket) -> None:
        """Ends the wait for a line."""
        self._slots.pop(line.socket.fileno(), None)

    def poll(self, seconds: float) -> Iterator[tuple[Slot, int]]:
        """Waits for events, at most for some seconds; yields each slot with those of its line."""
        for descriptor, events in self._epoll.poll(max(0.0, seconds)):
            slot = self._slots.pop(descriptor, None)
            if slot is not None:
                yield slot, events
            elif descriptor in self._readers:
                self._readers[descriptor]()

    def close(self) -> None:
        """Closes the epoll."""
        self._epoll.close()
