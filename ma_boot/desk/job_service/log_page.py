"""Pages of a worker's log, as the API returns them, and the direction in which the API pages. Pure.

The API's documents contradict each other on `asc` and `desc`, and do not say whether a page includes its base
line. So a page is read by the identities of its lines: where these are numbers, they show the order of the
lines within the page, and whether the page lies before or after its base line. Other identities are taken as
the newest document describes them: `asc` returns later lines, oldest first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

# Lines per page; the API rejects more.
MOST_LINES = 500


class LogPage(NamedTuple):
    """Lines of a log, the oldest first, without the base line; identities of the oldest and newest line."""

    lines: list[str]
    oldest: str
    newest: str

    @classmethod
    def of(cls, answer: Mapping[str, Any], base: str | None, order: str) -> LogPage:
        """Reads an answer to a request for the lines next to `base` in `order`."""
        content, count = answer.get("content") or "", answer.get("lines")
        oldest, newest = answer.get("start_line") or "", answer.get("end_line") or ""
        lines = content.split("\n")
        if count is not None and count < len(lines):
            lines = lines[:count]
        elif count is None and not lines[-1]:  # the end of the last line begins no further one
            lines.pop()
        if not oldest or not newest:
            return cls([], oldest, newest)
        are_numbers = oldest.isdecimal() and newest.isdecimal()
        is_newest_first = int(oldest) > int(newest) if are_numbers else order == "desc"
        if is_newest_first:
            lines, oldest, newest = lines[::-1], newest, oldest
        if base == oldest:
            lines = lines[1:]
        elif base == newest:
            lines = lines[:-1]
        return cls(lines, oldest, newest)

    def is_later_than(self, base: str) -> bool | None:
        """Returns whether the page lies after `base`; None if identities do not show it."""
        if not (self.lines and base.isdecimal() and self.oldest.isdecimal() and self.newest.isdecimal()):
            return None
        return int(self.newest) > int(base)

    def moves_from(self, base: str, is_later: bool) -> bool:
        """Returns whether reading on from this page makes progress in the wanted direction."""
        return bool(self.lines) and (self.newest if is_later else self.oldest) != base


class PageOrder(NamedTuple):
    """The values of `order` that return later and earlier lines; `is_known` once a page has shown it."""

    later: str = "asc"
    earlier: str = "desc"
    is_known: bool = False

    def candidates(self, is_later: bool) -> tuple[str, str]:
        """The order to try first for a direction, and the other one."""
        return (self.later, self.earlier) if is_later else (self.earlier, self.later)

    def learned_from(self, order: str, page_is_later: bool | None) -> PageOrder:
        """Returns the knowledge after a page of `order` that showed its direction, or did not (None)."""
        if self.is_known or page_is_later is None:
            return self
        as_assumed = page_is_later == (order == self.later)
        return PageOrder(
            later=self.later if as_assumed else self.earlier,
            earlier=self.earlier if as_assumed else self.later,
            is_known=True,
        )
