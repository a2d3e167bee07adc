"""Output in words that a process has not printed before. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

# Lines of a process that are remembered.
MOST_LINES = 500
# Characters of a line that are compared.
LINE_BYTES = 200
# Dates, times and seconds since 1970, which differ in each line of a log.
_CLOCK = rb"\d{1,4}[-/:.]\d{1,2}[-/:.]\d{1,4}(?:[T ,.:]\d[\d:.,]*)?Z?|\b\d{9,}(?:\.\d+)?"


class NewWords(NamedTuple):
    """Lines of one process, without their times; `position` is the number of bytes that were read."""

    lines: Mapping[bytes, None] = {}
    position: int = 0

    def read(self, received: int, text: bytes) -> tuple[NewWords, bool]:
        """Reads `text`, the last of `received` bytes; returns whether it has a line that is new.

        Its first bytes may have been read before.
        """
        if received == self.position:
            return self, False
        text = text[-(received - self.position) :]
        last = text.replace(b"\r", b"\n").rsplit(b"\n", MOST_LINES + 1)[-MOST_LINES - 1 :]
        shown = dict.fromkeys(re.sub(_CLOCK, b"", line[:LINE_BYTES]).strip() for line in last)
        shown.pop(b"", None)
        is_new = any(line not in self.lines for line in shown)
        # The oldest lines are first.
        lines = {**{line: None for line in self.lines if line not in shown}, **shown}
        latest = dict.fromkeys(list(lines)[-MOST_LINES:])
        return NewWords(latest, received), is_new
