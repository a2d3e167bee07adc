"""The rate limit that the service asks for. Pure."""

from __future__ import annotations

# Requests per second of one process: the limit never falls below this.
LOWEST = 0.5
# Seconds; refusals within this time are one, as their requests were in flight together.
BURST_SECONDS = 0.5
# Growth of the limit per second, as a share of the rate before the first refusal.
GROWTH = 0.1
# The limit is dropped at so many times the rate before the first refusal.
FREE_AGAIN = 2.0


class RateLimit:
    """Rate limit as a function of events, without a clock; times are in seconds. No limit at first."""

    def __init__(self) -> None:
        self.limit: float | None = None
        # The rate before the first refusal.
        self._best = 0.0
        self._refused = float("-inf")
        self._grown = 0.0
        self._next = 0.0
        self._window, self._begun, self._seen = 0.0, 0, 0.0

    def delay(self, now: float) -> float:
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

    def refused(self, now: float, after: float | None) -> None:
        """Lowers the limit after a SlowDown; `after` is its Retry-After in seconds, if any."""
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
