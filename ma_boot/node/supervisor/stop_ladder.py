"""Escalation of a stop: SIGTERM, one deadline for all processes, SIGKILL.

begin           SIGTERM to all workers; deadline after `stop_timeout`
  |             a further stop signal: `hurry` at once
deadline        SIGKILL; deadline after UNKILLABLE_SECONDS
deadline        the rest are `survivors`, and the run ends without them
begin_again     once all workers have ended: the same steps for processes they left behind
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Sequence
from typing import Callable

from ma_boot.report.journal import Journal

# Seconds that ma_boot waits after SIGKILL: a process in uninterruptible sleep (in a driver) may never end.
UNKILLABLE_SECONDS = 10.0
# Seconds; the shortest grace period of processes that the workers left behind.
REST_SECONDS = 1.0


class StopLadder:
    """State of a stop; sends the signal that is due by `send`. Times in seconds.

    `stops` are the stop signals that ma_boot has received so far. At a further one, `hurry` is sent at once.
    The first one never counts as further: it is the reason of the stop, or comes just after its begin.
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
        """True once a stop has begun."""
        return self._deadline is not None

    def patience(self) -> float:
        """Returns the seconds until the next step; infinite before the first one."""
        return math.inf if self._deadline is None else max(0.0, self._deadline - self.clock())

    def begin(self, reason: str, running: list[str]) -> None:
        """Sends SIGTERM; `running` are the labels of the workers for the log."""
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
        """Sends SIGTERM to processes left behind; keeps the deadline if it leaves REST_SECONDS or more."""
        now = self.clock()
        self._killed = False
        self._stops_seen = max(1, len(self.stops))
        self._deadline = max(self._deadline or now + self.stop_timeout, now + REST_SECONDS)
        self.send(signal.SIGTERM)

    def escalate(self, left: list[str]) -> None:
        """Takes the next step if it is due; after the last one, `left` becomes `survivors`."""
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
