"""Threads beside a loop, for functions that block: each has one of them at a time."""

from __future__ import annotations

import queue
import threading
from typing import Any, Callable

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
