"""The log of a worker: lines with identities, in pages of at most 500."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

FIRST = 1_790_000_000_000_000_000  # identities are stamps of 19 digits, as those of the API's ancestor


class TaskLog:
    """Lines of a file that grows, or lines that a test adds; `inclusive` pages begin with their base line.

    A `forgetful` one refuses base lines of an earlier start; in one of the `ancestor` API's ways `desc` is what
    follows, and a page's lines are as they were written.
    """

    def __init__(
        self,
        file: Path | None = None,
        inclusive: bool = True,
        newest_first: bool = False,
        ancestor: bool = False,
    ) -> None:
        self.forgetful, self.ancestor = False, ancestor
        self.file, self.inclusive, self.newest_first = file, inclusive, newest_first
        self.ended = False
        self.served = 0
        self._lines: list[str] = []
        self._start = 0  # of the log as it is now: a worker that restarts begins anew
        self._offset = 0
        self._rest = ""
        self._lock = threading.Lock()

    def add(self, *lines: str) -> None:
        with self._lock:
            self._lines += lines

    def restart(self) -> None:
        """Drops the lines that somebody has read: the worker's log begins anew."""
        with self._lock:
            self._start = self.served

    def page(self, base: str | None, order: str, most: int) -> dict[str, Any]:
        """A page of the API; without a log yet, an empty one."""
        if self.ancestor:
            order = "desc" if order == "asc" else "asc"
        with self._lock:
            self._grow()
            first, last = self._start, len(self._lines)
            if self.forgetful and base is not None and int(base) - FIRST < first:
                raise KeyError(base)
            if base is None:
                span = (
                    range(max(first, last - most), last)
                    if self.newest_first or order == "desc"
                    else range(first, last)
                )
            elif order == "asc":
                at = int(base) - FIRST + (0 if self.inclusive else 1)
                span = range(max(first, at), last)
            else:
                span = range(first, min(last, int(base) - FIRST + (1 if self.inclusive else 0)))
            chosen = list(span)[:most] if order == "asc" else list(reversed(span))[:most]
            chosen = sorted(chosen) if self.ancestor else chosen
            if not chosen:
                return {"content": "", "lines": 0, "start_line": "", "end_line": ""}
            self.served = max(self.served, max(chosen) + 1)
            return {
                "content": "\n".join(self._lines[index] for index in chosen),
                "lines": len(chosen),
                "start_line": str(FIRST + chosen[0]),
                "end_line": str(FIRST + chosen[-1]),
            }

    def _grow(self) -> None:
        if self.file is None or not self.file.exists():
            return
        with self.file.open("rb") as opened:
            opened.seek(self._offset)
            data = opened.read()
        self._offset += len(data)
        *lines, self._rest = (self._rest + data.decode("utf-8", "replace")).split("\n")
        self._lines += lines
        if self.ended and self._rest:
            self._lines.append(self._rest)
            self._rest = ""
