"""Work in a background thread, so that the main thread stays free to react to signals."""

from __future__ import annotations

import math
import threading
import time
from typing import Callable, Generic, TypeVar

from ma_boot.processes.signals import SignalInbox

# Seconds between two progress lines. ModelArts suspects a hang when the I/O of processes stops
# (modelarts_trouble_0108).
REMIND_SECONDS = 20.0

Result = TypeVar("Result")


class Task(Generic[Result]):
    """Background thread that runs `work(cancel)`; the work raises soon after the event is set.

    The thread is a daemon: a call that hangs in the network cannot keep the process alive.

    Raises:
        RuntimeError: the limit of threads is reached.
    """

    def __init__(self, name: str, work: Callable[[threading.Event], Result], inbox: SignalInbox) -> None:
        self._cancel = threading.Event()
        self._finished = threading.Event()
        self._results: list[Result] = []
        self._error: BaseException | None = None
        self._inbox = inbox
        threading.Thread(target=self._run, args=(work,), name=name, daemon=True).start()

    def _run(self, work: Callable[[threading.Event], Result]) -> None:
        try:
            self._results.append(work(self._cancel))
        except BaseException as error:
            # Raised again by `check` and `result` in the main thread.
            self._error = error
        finally:
            self._finished.set()
            self._inbox.wake()

    @property
    def finished(self) -> bool:
        """True once the work has returned or raised."""
        return self._finished.is_set()

    def cancel(self) -> None:
        """Asks the work to stop soon."""
        self._cancel.set()

    def check(self) -> None:
        """Raises the error of the work, if it has failed."""
        if self.finished and self._error is not None:
            raise self._error

    def wait(
        self,
        check: Callable[[], None],
        deadline: float = math.inf,
        remind: Callable[[], None] = lambda: None,
        first: float = REMIND_SECONDS,
    ) -> bool:
        """Waits for the work to finish; returns False if the monotonic `deadline` (seconds) comes first.

        `check` is called at every wake-up and may raise; `remind` is called after `first`
        seconds, and then every 20 s, to report progress.
        """
        remind_at = time.monotonic() + first
        while not self.finished:
            check()
            now = time.monotonic()
            if now >= deadline:
                return False
            if now >= remind_at:
                remind()
                remind_at = now + REMIND_SECONDS
            self._inbox.wait(min(deadline, remind_at) - now)
        return True

    def result(self) -> Result:
        """Returns the result of the work or raises its error; only for a finished task."""
        self.check()
        return self._results[0]
