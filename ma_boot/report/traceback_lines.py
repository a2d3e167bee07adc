"""Lines of a traceback as they come, in the form that is equal for all ranks. Pure.

frames --(exception)--> message --(any other line)--> after --(an empty line, or too many)--> over
  ^                        |
  `----(it is chained)-----'
"""

from __future__ import annotations

import re
from collections.abc import Collection

from ma_boot.report.explain import TRACEBACK, without_rank_prefix
from ma_boot.report.failure_blocks import CHAINED, continues_message, is_exception
from ma_boot.report.same_failure import common_form

# Lines and characters of a traceback, and lines after it, which may belong to its message.
MOST_LINES = 200
MOST_CHARACTERS = 1 << 14
MOST_AFTER = 20
_FRAMES, _MESSAGE, _AFTER = "frames", "message", "after"


def is_traceback(line: str) -> bool:
    """Returns whether a traceback begins with this line."""
    return without_rank_prefix(line) == TRACEBACK


class TracebackLines:
    """Lines of an output from a traceback on; `numbers` are those of its rank and device.

    `end` is the number of its lines up to the last one of its exception, 0 before that; `words` is the last
    exception. `is_over`: no further line is of interest. `is_chained`: the traceback that explains it must
    follow.
    """

    def __init__(self, numbers: Collection[int | None]) -> None:
        self.lines = [TRACEBACK]
        self.end = 0
        self.words = ""
        self.is_over = False
        self.is_chained = False
        self._numbers = numbers
        self._place = _FRAMES
        self._characters = 0

    @property
    def is_complete(self) -> bool:
        """True if these are whole tracebacks, each with its exception."""
        return self.end > 0 and self._place != _FRAMES and not self.is_chained

    @property
    def may_go_on(self) -> bool:
        """True if a further line may belong to the exception, or be that of the next one."""
        return self._place == _MESSAGE

    @property
    def block(self) -> list[str]:
        """The lines of the traceback, without those after it."""
        return self.lines[: self.end]

    def add(self, line: str) -> None:
        """Adds the next line of the output."""
        line = without_rank_prefix(line)
        before, shown = self.lines[-1], common_form(line, self._numbers)
        self.lines.append(shown)
        self._characters += len(shown)
        self._place = self._next_place(line, before)
        after = len(self.lines) - self.end
        is_after = self._place == _AFTER and (not line.strip() or after > MOST_AFTER)
        is_long = len(self.lines) > MOST_LINES or self._characters > MOST_CHARACTERS
        self.is_over = self.is_over or is_after or is_long

    def _next_place(self, line: str, before: str) -> str:
        if self._place == _FRAMES:
            if line[:1].isspace():
                return _FRAMES
            if not is_exception(line):
                return _AFTER
            self.end, self.words = len(self.lines), line
            return _MESSAGE
        if self._place == _AFTER:
            return _AFTER
        if self.is_chained and line == TRACEBACK:
            self.is_chained = False
            return _FRAMES
        if re.match(CHAINED, line):
            self.is_chained = True
        elif line.strip():
            if self.is_chained or not continues_message(line, before):
                return _AFTER
            self.end = len(self.lines)
        return _MESSAGE
