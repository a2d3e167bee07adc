"""Threads beside a loop, for functions that block: each thread runs one of them at a time."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any, Callable

from path_mapping.stores.waits import Elsewhere
from path_mapping.workers.loop_waits import Slot

Work = Callable[[], Any]
# Called in the thread, with the result, or the exception that was raised.
Done = Callable[[Any], None]


class SideThread:
    """One thread, which starts with its first work; where none can be started, the caller does the work."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._works: queue.SimpleQueue[tuple[Work, Done] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def do(self, work: Work, done: Done) -> None:
        """Does the work; returns at once."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the limit of threads of the user or container is reached
                done(result_of(work))
                return
            self._thread = thread
        self._works.put((work, done))

    def _run(self) -> None:
        for work, done in iter(self._works.get, None):
            done(result_of(work))

    def close(self, seconds: float) -> bool:
        """Ends the thread after its present work; False if that takes longer than so many seconds."""
        if self._thread is None:
            return True
        self._works.put(None)
        self._thread.join(seconds)
        return not self._thread.is_alive()


def result_of(work: Work) -> Any:
    """Returns the result of a function, or its exception."""
    try:
        return work()
    except BaseException as error:  # raised again in the task
        return error


class SideThreads:
    """The threads of a loop, one for data and one for calls that take seconds; a pipe tells of results."""

    def __init__(self) -> None:
        """Raises `OSError` at the limit of open files."""
        self._threads = {False: SideThread("transfer-data"), True: SideThread("transfer-slow")}
        self._results: deque[tuple[Slot, Any]] = deque()
        self._woken, self._wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int:
        """The descriptor that is readable when there are results."""
        return self._woken

    def do(self, wait: Elsewhere, slot: Slot) -> None:
        """Does the work of a wait; returns at once."""
        self._threads[wait.slow].do(wait.work, partial(self._finished, slot))

    def _finished(self, slot: Slot, result: Any) -> None:
        """Passes the result of a thread on; called in its thread."""
        self._results.append((slot, result))
        with contextlib.suppress(BlockingIOError):  # the loop is awake
            os.write(self._wakes, b"x")

    def results(self) -> Iterator[tuple[Slot, Any]]:
        """Yields each slot whose work is done, with the result or the exception."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 1 << 10)
        while self._results:
            yield self._results.popleft()

    def end(self, seconds: float) -> frozenset[bool]:
        """Ends the threads after their present work; returns `Elsewhere.slow` of those that still run."""
        running = frozenset(slow for slow, thread in self._threads.items() if not thread.close(seconds))
        if not running:
            os.close(self._wakes)
            os.close(self._woken)
        return running
