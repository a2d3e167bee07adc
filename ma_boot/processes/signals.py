"""Signals: received as data by an inbox on which the main loop waits, and sent to processes and groups."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from types import FrameType
from typing import Any, Dict, List, Optional

from ma_boot.errors import Stopped

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class SignalInbox:
    """Collects the stop signals of this process while it is entered; for the main thread.

    SIGCHLD is caught only to wake the main loop. The supervisor polls each of its own children: a
    `waitpid(-1)` beside `Popen` would steal their exit codes.
    """

    def __init__(self) -> None:
        self.stops: List[int] = []
        self._previous: Dict[int, Any] = {}
        self._previous_wakeup = -1
        self._open = False
        self._opening = threading.Lock()

    def __enter__(self) -> SignalInbox:
        self._read, self._write = os.pipe()
        self._open = True
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._previous_wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for signum in (*STOP_SIGNALS, signal.SIGCHLD):
            if signum == signal.SIGHUP and signal.getsignal(signum) == signal.SIG_IGN:
                continue  # started by nohup
            self._previous[signum] = signal.signal(signum, self._record)
        return self

    def __exit__(self, *exc: object) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._previous_wakeup)
        with self._opening:
            self._open = False
            os.close(self._read)
            os.close(self._write)

    def _record(self, signum: int, frame: Optional[FrameType]) -> None:
        if signum != signal.SIGCHLD:
            self.stops.append(signum)

    def fileno(self) -> int:
        """A descriptor that is readable when anything has arrived since the last `drain`."""
        return self._read

    def drain(self) -> None:
        """Consumes pending wake-ups, so that the next wait sleeps."""
        try:
            while os.read(self._read, 4096):
                pass
        except BlockingIOError:
            pass

    def wake(self) -> None:
        """Wakes the waiting loop; may be called from any thread, also from one that outlives the inbox."""
        with self._opening, contextlib.suppress(BlockingIOError):  # the pipe is full: the loop wakes anyway
            if self._open:
                os.write(self._write, b"\0")

    def wait(self, seconds: float) -> None:
        """Sleeps until something arrives, for at most `seconds`."""
        select.select([self._read], [], [], max(0.0, seconds))
        self.drain()

    def check(self) -> None:
        """Does nothing until a stop signal has arrived.

        Raises:
            Stopped: a stop signal has arrived.
        """
        if self.stops:
            raise Stopped(self.stops[0])


def signal_group(pgid: int, signum: int) -> bool:
    """Sends the signal to a process group; returns False if the group has no members."""
    try:
        os.killpg(pgid, signum)
    except ProcessLookupError:
        return False
    except PermissionError:  # the remaining members run as another user
        return True
    return True


def group_exists(pgid: int) -> bool:
    """Whether the group has any members, including zombies."""
    return signal_group(pgid, 0)


def kill_group(pgid: int) -> None:
    """Sends SIGKILL to whatever is left of the group."""
    signal_group(pgid, signal.SIGKILL)


def signal_process(pid: int, signum: int) -> None:
    """Sends the signal to a process, if it exists and belongs to this user."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signum)
