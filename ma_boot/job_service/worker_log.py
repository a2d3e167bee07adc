"""The log of one worker, read page by page from its first line on; each line once."""

from __future__ import annotations

from typing import Any, Callable, Iterator, List, Mapping, Optional

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
