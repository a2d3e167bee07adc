"""Daemon thread that runs an asyncio event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Callable

# Seconds that `stop` waits for the thread.
STOP_SECONDS = 0.2


class LoopThread:
    """Event loop in a daemon thread.

    `on_start` runs in the thread before the loop, `on_end` after it.
    """

    def __init__(self, name: str, on_start: Callable[[], None], on_end: Callable[[], None]) -> None:
        self.loop = asyncio.new_event_loop()
        # A failed connection must not print tracebacks between the output of the training.
        self.loop.set_exception_handler(lambda loop, context: None)
        self._on_start, self._on_end = on_start, on_end
        self._lock = threading.Lock()
        self._pending = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def has_pending(self) -> bool:
        """True while submitted work has not run yet."""
        return self._pending > 0

    def start(self) -> None:
        """Starts the thread.

        Raises:
            RuntimeError: the limit of threads is reached; `on_end` has been called.
        """
        try:
            self._thread.start()
        except RuntimeError:
            self._end()
            raise

    def submit(self, work: Callable[[], None]) -> None:
        """Runs the work in the thread, soon; `has_pending` is True until then."""
        with self._lock:
            self._pending += 1

        def run() -> None:
            work()
            with self._lock:
                self._pending -= 1

        self._call_soon(run)

    def stop(self) -> None:
        """Stops the loop, cancels its tasks and waits for the thread for a moment."""
        self._call_soon(self.loop.stop)
        self._thread.join(STOP_SECONDS)

    def _call_soon(self, work: Callable[[], None]) -> None:
        # A closed loop raises RuntimeError.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(work)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self._on_start()
        try:
            self.loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            with contextlib.suppress(Exception):
                self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._end()

    def _end(self) -> None:
        self._on_end()
        self.loop.close()
