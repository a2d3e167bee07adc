"""Searches output for the patterns of `--metric`, each within a limit of CPU time.

A regular expression of a user may need longer than the training, even for one line. The package `regex` can
interrupt a search, which `re` cannot, and other threads run during it. It is imported only if a job has a
pattern.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Callable

import regex

from ma_boot.node.observe.metrics.progress import Pattern

# Seconds of CPU time, for one pattern in the last lines of one rank.
SEARCH_SECONDS = 0.1


class PatternSearch:
    """Searches lines for patterns; drops a pattern that takes too long, with one call of `warn`."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._dropped: set[Pattern] = set()

    def last_value(self, pattern: Pattern, lines: Sequence[bytes]) -> float | None:
        """Returns the number in the last line that has one; None without any, or if the pattern was dropped.

        The number is the first group of the expression, or the whole match if it has no group.
        """
        if pattern in self._dropped:
            return None
        try:
            return _last_value(regex.compile(pattern.expression), lines)
        except TimeoutError:
            self._dropped.add(pattern)
            expression = pattern.expression.decode("utf-8", "replace")
            self._warn(
                f"--metric {pattern.names[0]} is no longer used: a search for {expression} took more than "
                f"{SEARCH_SECONDS} s of CPU time"
            )
            return None


def _last_value(expression: regex.Pattern[bytes], lines: Sequence[bytes]) -> float | None:
    # `regex` measures the CPU time of the whole process, with that of other threads. To be dropped for their
    # work as seldom as possible, a pattern is charged for the time of this thread only, line by line.
    deadline = time.thread_time() + SEARCH_SECONDS
    for line in reversed(lines):
        left = deadline - time.thread_time()
        if left <= 0:
            raise TimeoutError
        match = expression.search(line, timeout=left)
        if match is not None:
            value = _number(match.group(1 if expression.groups else 0) or b"")
            if value is not None:
                return value
    return None


def _number(text: bytes) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    # Too many digits become an infinity, which was not printed.
    return None if math.isinf(value) and b"inf" not in text.lower() else value
