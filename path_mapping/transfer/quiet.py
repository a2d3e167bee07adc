"""Which outputs may be uploaded while the training still runs, and when. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import AbstractSet, Mapping, NamedTuple, Sequence, Set, Tuple

SETTLE_SECONDS = 5.0  # between the two looks at a file, where the interval leaves so much


class Look(NamedTuple):
    """A file at one moment; bytes, nanoseconds."""

    size: int
    mtime_ns: int


def quiet(before: Mapping[str, Look], now: Mapping[str, Look], written: AbstractSet[str]) -> Set[str]:
    """The files that are as they were at the earlier look, and that nobody has open for writing."""
    return {path for path, look in now.items() if before.get(path) == look and path not in written}


def settle_seconds(interval: float) -> float:
    """How long a file must hold still: 5 s, or half of a short interval."""
    return min(SETTLE_SECONDS, interval / 2)


@dataclass(frozen=True)
class Schedule:
    """When each of some routes is due next, by a monotonic clock, in seconds.

    The next round of a route is due one interval after the end of its last: none is made up for.
    """

    intervals: Tuple[float, ...]
    due: Tuple[float, ...]

    @classmethod
    def starting(cls, intervals: Sequence[float], now: float) -> Schedule:
        """The first round comes after one interval."""
        return cls(tuple(intervals), tuple(now + interval for interval in intervals))

    def wait(self, now: float) -> float:
        """Until the first is due; 0 when one is."""
        return max(0.0, min(self.due) - now)

    def ready(self, now: float) -> Tuple[int, ...]:
        """The numbers of the routes that are due."""
        return tuple(number for number, due in enumerate(self.due) if due <= now)

    def after(self, done: Sequence[int], now: float) -> Schedule:
        """Once these routes have been uploaded."""
        due = [now + self.intervals[n] if n in done else due for n, due in enumerate(self.due)]
        return Schedule(self.intervals, tuple(due))
