"""The end of a log: its last lines, or those of its last minutes by the times in the lines."""

from __future__ import annotations

import re
from collections import deque
from datetime import datetime, timedelta
from typing import Deque, Iterable, List, NamedTuple, Optional, Tuple

_TIME = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[-T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")
_WITHIN = 120  # characters from the beginning of a line


class Recent(NamedTuple):
    """What of a log that is there already is shown: the last `lines`, or those of the last `seconds`."""

    lines: Optional[int] = None
    seconds: Optional[float] = None


class Tail:
    """The end of one log, of which all lines are added one after the other.

    The service does not say when a line was printed, nor in which time zone a node is. So the end of the last
    minutes is reckoned from the newest time in the log; a line without a time has that of the one before.
    """

    def __init__(self, recent: Recent) -> None:
        self.has_times = False
        self._recent = recent
        self._kept: Deque[Tuple[Optional[datetime], str]] = deque(maxlen=recent.lines)
        self._newest: Optional[datetime] = None
        self._last: Optional[datetime] = None

    def add(self, lines: Iterable[str]) -> None:
        """Adds lines, and forgets those that are too old."""
        for line in lines:
            found = time_in(line) if self._recent.seconds is not None else None
            if found is not None:
                self.has_times, self._last = True, found
                self._newest = max(found, self._newest or found)
            self._kept.append((self._last, line))
            self._forget()

    def rest(self) -> List[str]:
        """The lines that are left."""
        return [line for _, line in self._kept]

    def _forget(self) -> None:
        if self._recent.seconds is None or self._newest is None:
            return
        oldest = self._newest - timedelta(seconds=self._recent.seconds)
        while self._kept and (self._kept[0][0] is None or self._kept[0][0] < oldest):
            self._kept.popleft()


def time_in(line: str) -> Optional[datetime]:
    """The time at the beginning of a line, such as `2026-11-22 14:00:00,123`; None if there is none."""
    found = _TIME.search(line, 0, _WITHIN)
    if found is None:
        return None
    *date, fraction = found.groups()
    year, month, day, hour, minute, second = map(int, date)
    try:
        return datetime(year, month, day, hour, minute, second, int((fraction or "0").ljust(6, "0")))
    except ValueError:
        return None
