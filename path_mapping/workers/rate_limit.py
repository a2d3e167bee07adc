"""The rate of requests: halved after each `SlowDown` of the service, then raised step by step (AIMD)."""

from __future__ import annotations

import random
import threading
import time
from typing import Callable, Optional

LOWEST = 0.5  # requests per second of one process
BURST_SECONDS = 0.5  # refusals within this time count as one: their requests were in flight together
GROWTH = 0.1  # per second, as a share of the rate before the first refusal
FREE_AGAIN = 2.0  # times the rate before the first refusal: the limit is dropped


class RateLimit:
    """The permitted rate as a pure function of events; times are in seconds. There is no limit at first."""

    def __init__(self) -> None:
        self.limit: Optional[float] = None
        self._best = 0.0  # the rate before the first refusal
        self._refused = float("-inf")
        self._grown = 0.0
        self._next = 0.0
        self._window, self._begun, self._seen = 0.0, 0, 0.0

    def begin(self, now: float) -> float:
        """Counts a request; returns the seconds that it has to wait first."""
        if now - self._window >= 1.0:
            self._seen = self._begun / (now - self._window)
            self._window, self._begun = now, 0
        self._begun += 1
        self._grow(now)
        start = max(self._next, now)
        if self.limit is not None:
            self._next = start + 1.0 / self.limit
        return start - now

    def refused(self, now: float, after: Optional[float]) -> None:
        """The service refused a request with SlowDown; `after` is its Retry-After in seconds, if any."""
        self._next = max(self._next, now + (after or 0.0))
        if now - self._refused < BURST_SECONDS:
            return
        if self.limit is None:
            self._best = self.limit = max(self._seen, self._begun / max(now - self._window, 0.1), 2 * LOWEST)
        self.limit = max(LOWEST, self.limit / 2)
        self._refused = now
        self._grown = now + BURST_SECONDS

    def _grow(self, now: float) -> None:
        """Raises the limit for the time without a refusal, and drops it in the end."""
        if self.limit is None or now <= self._grown:
            return
        self.limit += (now - self._grown) * GROWTH * self._best
        self._grown = now
        if self.limit > FREE_AGAIN * self._best:
            self.limit = None


class RateLimiter:
    """A `RateLimit` for all threads of a process; `told` is called with each refusal, for other processes."""

    def __init__(self, told: Callable[[Optional[float]], None] = lambda after: None) -> None:
        self._rate = RateLimit()
        self._lock = threading.Lock()
        self._told = told

    @property
    def limits(self) -> bool:
        """Whether the service has asked for fewer requests."""
        return self._rate.limit is not None

    def wait(self, cancel: threading.Event) -> None:
        """Returns when the next request may begin, or `cancel` is set."""
        with self._lock:
            seconds = self._rate.begin(time.monotonic())
        if seconds > 0:
            cancel.wait(seconds * random.uniform(1.0, 1.2))

    def refused(self, after: Optional[float]) -> None:
        """The service refused a request of this process with SlowDown."""
        self.slower(after)
        self._told(after)

    def slower(self, after: Optional[float]) -> None:
        """The service refused a request of another process."""
        with self._lock:
            self._rate.refused(time.monotonic(), after)
