"""Reads the log of one worker, each line once.

The position in the log is the identity of the newest line that was read. A worker that starts again begins a
new log, so the service may refuse that identity:

    not read --first page--> at NEWEST --page of later lines--> at NEWEST
                                |  refused twice
                                v
                       read again from the first line; lines up to the old count are skipped
                       if the first line is the same, else all lines are new
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Callable, Optional

from ma_boot.desk.job_service.log_page import MOST_LINES, LogPage, PageOrder
from ma_boot.errors import ConfigError

GetPage = Callable[[Optional[str], str, int], Mapping[str, Any]]  # base line, asc or desc, maximum of lines
# Refusals of one base line before the log is read again: the first may be a passing fault of the service.
_MOST_REFUSALS = 2


class WorkerLog:
    """Reading position in a worker's log; `count` is the number of lines that were read."""

    def __init__(self, task: str) -> None:
        self.task = task
        self.count = 0
        self._newest: str | None = None  # identity of the newest line that was read
        self._first: str | None = None  # identity of the first line; None if reading began later
        self._since_first = 0  # lines that were read from `_first` on
        self._order = PageOrder()

    @property
    def label(self) -> str:
        """The prefix of its lines: `node 1` for the task `worker-1`."""
        role, _, number = self.task.rpartition("-")
        return f"node {number}" if role == "worker" else self.task

    def pages(self, get: GetPage, last: int | None = None) -> Iterator[list[str]]:
        """Yields new lines page by page, and counts a page as read when it is yielded.

        `last` limits a log that was not read before to its last lines. Raises `ConfigError` if the service
        refuses the position and there is no first line to begin again from.
        """
        if self._newest is None:
            yield from self._from_the_beginning(get, last)
        refusals = 0
        while self._newest is not None:
            try:
                page = self._next_to(get, self._newest, is_later=True)
            except ConfigError:
                refusals += 1
                if refusals > _MOST_REFUSALS or (refusals == _MOST_REFUSALS and self._first is None):
                    raise
                if refusals == _MOST_REFUSALS:
                    self._newest = None
                    yield from self._from_the_beginning(get)
                continue
            if not page.lines:
                return
            yield self._read(page)

    def _from_the_beginning(self, get: GetPage, last: int | None = None) -> Iterator[list[str]]:
        """Yields the log up to its present end, without lines that were read before."""
        most = MOST_LINES if last is None else max(1, min(last, MOST_LINES))
        order = self._order.later if last is None else self._order.earlier
        pages = [LogPage.of(get(None, order, most), None, order)]
        if not pages[0].lines:
            return
        # A page without a base line may be the first or the last one: the pages before it show which.
        while last is None or sum(len(page.lines) for page in pages) < last:
            earlier = self._next_to(get, pages[0].oldest, is_later=False)
            if not earlier.lines:
                break
            pages.insert(0, earlier)
        known = self._since_first if pages[0].oldest == self._first else 0
        self._first, self._since_first = (pages[0].oldest if last is None else None), 0
        for page in pages:
            skipped = min(known, len(page.lines))
            known -= skipped
            self.count -= skipped
            yield self._read(page)[skipped:]

    def _read(self, page: LogPage) -> list[str]:
        self._newest = page.newest
        self.count += len(page.lines)
        self._since_first += len(page.lines)
        return page.lines

    def _next_to(self, get: GetPage, base: str, *, is_later: bool) -> LogPage:
        """Returns the page next to `base` in one direction; without lines at that end of the log.

        Requests the other order too until a page has shown which order leads in which direction.
        """
        was_known = self._order.is_known
        for order in self._order.candidates(is_later):
            page = LogPage.of(get(base, order, MOST_LINES), base, order)
            page_is_later = page.is_later_than(base)
            self._order = self._order.learned_from(order, page_is_later)
            if page.moves_from(base, is_later) and page_is_later in (None, is_later):
                return page
            if was_known or (page_is_later is None and not (is_later and base.isdecimal())):
                break
        return page._replace(lines=[])
