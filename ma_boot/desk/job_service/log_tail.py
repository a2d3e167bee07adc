"""The end of a log: its last lines, or the lines of its last minutes. Pure."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

_TIME = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[-T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")
# The time of a line is searched in its first characters only: later numbers are data.
_WITHIN = 120


class Recent(NamedTuple):
    """The part of an existing log to show: the last `lines`, or the lines of the last `seconds`."""

    lines: int | None = None
    seconds: float | None = None


class LogTail:
    """Keeps the recent lines of one log, to which lines are added in order.

    The service returns neither the time of a line nor the time zone of a node. So the last seconds are
    counted back from the newest time found in the log; a line without a time has that of the line before.
    """

    def __init__(self, recent: Recent) -> None:
        self.has_times = False
        self._recent = recent
        self._kept: deque[tuple[datetime | None, str]] = deque(maxlen=recent.lines)
        self._newest: datetime | None = None  # of all lines
        self._last: datetime | None = None  # of the line that was added last

    def add(self, lines: Iterable[str]) -> None:
        """Adds lines and drops those that are too old."""
        for line in lines:
            time = time_in(line) if self._recent.seconds is not None else None
            if time is not None:
                self.has_times, self._last = True, time
                self._newest = max(time, self._newest or time)
            self._kept.append((self._last, line))
            self._drop_old_lines()

    def lines(self) -> list[str]:
        """Returns the recent lines."""
        return [line for _, line in self._kept]

    def _drop_old_lines(self) -> None:
        if self._recent.seconds is None or self._newest is None:
            return
        oldest = self._newest - timedelta(seconds=self._recent.seconds)
        while self._kept and (self._kept[0][0] is None or self._kept[0][0] < oldest):
            self._kept.popleft()


def time_in(line: str) -> datetime | None:
    """Returns the time at the beginning of a line, such as `2026-11-22 14:00:00,123`; None without one."""
    match = _TIME.search(line, 0, _WITHIN)
    if match is None:
        return None
    *date, fraction = match.groups()
    microseconds = int((fraction or "0").ljust(6, "0"))
    try:
        year, month, day, hour, minute, second = map(int, date)
        return datetime(year, month, day, hour, minute=minute, second=second, microsecond=microseconds)
    except ValueError:  # a number such as month 13
        return None
