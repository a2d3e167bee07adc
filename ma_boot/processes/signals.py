"""Signals as data: the handler records, the loop decides, and the kernel wakes the loop."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from types import FrameType
from typing import Any, Dict, List, Optional

from ma_boot.errors import Stopped

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class SignalInbox:
    """Collects the signals of this process while it is entered; use it in the main thread.

    SIGCHLD is caught only to wake the loop: who reaps is for the supervisor, who asks each of its own
    children (a `waitpid(-1)` beside `Popen` would take their exit codes away).
    """

    def __init__(self) -> None:
        self.stops: List[int] = []
        self._previous: Dict[int, Any] = {}
        self._previous_wakeup = -1

    def __enter__(self) -> SignalInbox:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._previous_wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for signum in (*STOP_SIGNALS, signal.SIGCHLD):
            if signum == signal.SIGHUP and signal.getsignal(signum) == signal.SIG_IGN:
                continue  # started by nohup: it stays so
            self._previous[signum] = signal.signal(signum, self._record)
        return self

    def __exit__(self, *exc: object) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._previous_wakeup)
        os.close(self._read)
        os.close(self._write)

    def _record(self, signum: int, frame: Optional[FrameType]) -> None:
        if signum != signal.SIGCHLD:
            self.stops.append(signum)

    def fileno(self) -> int:
        """Readable whenever something has arrived since the last `drain`."""
        return self._read

    def drain(self) -> None:
        """Takes the wake-ups that have arrived, so that the next wait sleeps."""
        try:
            while os.read(self._read, 4096):
                pass
        except BlockingIOError:
            pass

    def wake(self) -> None:
        """Wakes the waiting loop; may be called from any thread."""
        with contextlib.suppress(BlockingIOError):  # full of wake-ups already
            os.write(self._write, b"\0")

    def wait(self, seconds: float) -> None:
        """Sleeps until something arrives, at most `seconds`."""
        select.select([self._read], [], [], max(0.0, seconds))
        self.drain()

    def check(self) -> None:
        """Raises `Stopped` once a stop signal has arrived."""
        if self.stops:
            raise Stopped(self.stops[0])
