"""The steps by which everything is stopped: SIGTERM, one deadline for all, SIGKILL."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Sequence
from typing import Callable

from ma_boot.report.journal import Journal

UNKILLABLE_SECONDS = 10.0  # SIGKILL waits for a process in uninterruptible sleep; ma_boot does not
REST_SECONDS = 1.0  # at least, for what the processes left behind


class StopLadder:
    """Decides which signal is due, and sends it by `send`; times in seconds.

    `stops` are the stop signals that ma_boot has received so far. At a further one, `hurry` is sent at once.
    The first one is never a further one: it is why the stop begins, or comes just after.
    """

    def __init__(
        self,
        stop_timeout: float,
        hurry: int,
        stops: Sequence[int],
        send: Callable[[int], None],
        journal: Journal,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stop_timeout = stop_timeout
        self.hurry = hurry
        self.stops = stops
        self.send = send
        self.journal = journal
        self.clock = clock
        self.survivors: list[str] = []
        self._deadline: float | None = None
        self._killed = False
        self._stops_seen = 0

    @property
    def begun(self) -> bool:
        """Whether anything has been stopped yet."""
        return self._deadline is not None

    def patience(self) -> float:
        """Seconds until the next step; infinite before the first one."""
        return math.inf if self._deadline is None else max(0.0, self._deadline - self.clock())

    def begin(self, reason: str, running: list[str]) -> None:
        """Sends SIGTERM; `running` are the labels of what it is sent to."""
        self._deadline = self.clock() + self.stop_timeout
        self._stops_seen = max(1, len(self.stops))
        self.send(signal.SIGTERM)
        if running:
            again = " (Ctrl-C again: all processes are killed at once, and an upload of outputs is given up)"
            self.journal.say(
                f"{reason}: stopping {', '.join(running)}{again if signal.SIGINT in self.stops else ''}"
            )
        self.journal.event("stop", reason=reason, running=running)

    def begin_again(self) -> None:
        """Sends SIGTERM to what was left behind; a deadline that is set stays, unless it is too close."""
        now = self.clock()
        self._killed = False
        self._stops_seen = max(1, len(self.stops))
        self._deadline = max(self._deadline or now + self.stop_timeout, now + REST_SECONDS)
        self.send(signal.SIGTERM)

    def escalate(self, left: list[str]) -> None:
        """Takes the next step if it is due; after the last one, what is `left` becomes `survivors`."""
        if len(self.stops) > self._stops_seen and not self._killed:
            self._stops_seen = len(self.stops)
            self._kill(self.hurry, left)
        elif left and self.begun and self.patience() == 0:
            if self._killed:
                self.survivors = left
                self.journal.event("unkillable", left=left)
                self.journal.warn(f"SIGKILL did not end {', '.join(left)}")
            else:
                self._kill(signal.SIGKILL, left)

    def _kill(self, signum: int, left: list[str]) -> None:
        if signum == signal.SIGKILL:
            self._killed = True
            self._deadline = self.clock() + UNKILLABLE_SECONDS
        self.send(signum)
        self.journal.event("kill", signal=signum, left=left)
