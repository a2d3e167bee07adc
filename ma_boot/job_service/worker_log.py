"""The log of one worker: read page by page from its first line on, each line once, or only its end."""

from __future__ import annotations

import re
from collections import deque
from datetime import datetime, timedelta
from typing import Any, Callable, Deque, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ma_boot.errors import ConfigError

MOST = 500  # lines of a page

Page = Mapping[str, Any]
GetPage = Callable[[Optional[str], str, int], Page]  # base line, asc or desc, lines at most


class WorkerLog:
    """What has been read of a worker's log.

    A page begins at a base line, whose identity is opaque. The API's documents do not say whether that line
    is a part of the page, nor what a page in ascending order without one is. So neither is relied on: a page
    that begins with the base line loses it, and what is older than the first page is read before it. A base
    line that the service does not know any more is that of an earlier start: the log is read from its first
    line again.
    """

    def __init__(self, task: str) -> None:
        self.task = task
        self.count = 0
        self._base: Optional[str] = None

    @property
    def label(self) -> str:
        """How its lines are marked: `node 1` for `worker-1`."""
        role, _, number = self.task.rpartition("-")
        return f"node {number}" if role == "worker" else self.task

    def pages(self, get: GetPage) -> Iterator[List[str]]:
        """The lines that are new, a page at a time; a page counts as read once it was returned."""
        while True:
            try:
                page = get(self._base, "asc", MOST)
            except ConfigError:
                if self._base is None:
                    raise
                self._base = None  # the worker has restarted, and its log begins anew
                continue
            lines = _lines(page, self._base)
            if not lines:
                return
            older = _older(page, get) if self._base is None else []
            self._base = str(page["end_line"])
            for found in (*older, lines):
                self.count += len(found)
                yield found


def _older(first: Page, get: GetPage) -> List[List[str]]:
    """The pages before this one, the oldest first."""
    found: List[List[str]] = []
    base = str(first["start_line"])
    while True:
        page = get(base, "desc", MOST)
        lines = _lines(page, base)
        if not lines:
            return found[::-1]
        found.append(lines[::-1])
        base = str(page["end_line"])


def _lines(page: Page, base: Optional[str]) -> List[str]:
    """The lines of a page in its order, without the base line."""
    content, count = str(page.get("content") or ""), page.get("lines")
    lines = content.split("\n")
    if isinstance(count, int) and count < len(lines):
        lines = lines[:count]
    elif not isinstance(count, int) and not lines[-1]:
        lines.pop()
    if not page.get("end_line"):
        return []
    return lines[1:] if base is not None and str(page.get("start_line")) == base else lines


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
