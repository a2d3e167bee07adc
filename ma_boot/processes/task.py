"""Work in a thread beside the main one, which stays free to hear signals."""

from __future__ import annotations

import math
import threading
import time
from typing import Callable, Generic, List, Optional, TypeVar

from ma_boot.processes.signals import SignalInbox

REMIND_SECONDS = 20.0  # the platform takes half an hour without a line for a hang

Result = TypeVar("Result")


class Task(Generic[Result]):
    """Runs `work(cancel)` at once; `work` is expected to look at the event often and to raise once it is set.

    The thread is a daemon: a call that hangs in the network cannot keep the process alive.
    """

    def __init__(self, name: str, work: Callable[[threading.Event], Result], inbox: SignalInbox) -> None:
        self._cancel = threading.Event()
        self._finished = threading.Event()
        self._results: List[Result] = []
        self._error: Optional[BaseException] = None
        self._inbox = inbox
        threading.Thread(target=self._run, args=(work,), name=name, daemon=True).start()

    def _run(self, work: Callable[[threading.Event], Result]) -> None:
        try:
            self._results.append(work(self._cancel))
        except BaseException as error:  # carried to the thread that asks for the result
            self._error = error
        finally:
            self._finished.set()
            self._inbox.wake()

    @property
    def finished(self) -> bool:
        """True once there is a result or an error."""
        return self._finished.is_set()

    def cancel(self) -> None:
        """Asks the work to end soon."""
        self._cancel.set()

    def check(self) -> None:
        """Raises the work's error once it has failed."""
        if self.finished and self._error is not None:
            raise self._error

    def wait(
        self,
        check: Callable[[], None],
        deadline: float = math.inf,
        remind: Callable[[], None] = lambda: None,
    ) -> bool:
        """Sleeps until the work is over, at most to the monotonic `deadline`; False when that came first.

        `check` is called at every wake-up and may raise; `remind` every 20 s, to say that there is life.
        """
        reminded = time.monotonic()
        while not self.finished:
            check()
            now = time.monotonic()
            if now >= deadline:
                return False
            if now - reminded >= REMIND_SECONDS:
                remind()
                reminded = now
            self._inbox.wait(min(deadline, reminded + REMIND_SECONDS) - now)
        return True

    def result(self) -> Result:
        """What the work returned; raises what it raised. Only for a finished task."""
        self.check()
        return self._results[0]
