"""Searches lines for a user's pattern; run as a program, for whoever must not wait for a pattern.

A regular expression may take longer than a training does, even on one line; Python's `re` cannot be
interrupted in it, and no other thread runs meanwhile. So the kernel ends this program once a request has
taken `SEARCH_SECONDS`.

Requests and answers are lines of JSON: a pattern and the lines, then the value that was found, or null.
"""

from __future__ import annotations

import json
import math
import re
import signal
import sys
from collections.abc import Sequence

SEARCH_SECONDS = 0.1  # of CPU time, for the last lines of one rank


def last_value(expression: re.Pattern[bytes], lines: Sequence[bytes]) -> float | None:
    """The number in the first group of the expression, or in all of it, of the last line that has one."""
    for line in reversed(lines):
        match = expression.search(line)
        try:
            if match is not None:
                text = match.group(1 if expression.groups else 0) or b""
                value = float(text)
                if not math.isinf(value) or b"inf" in text.lower():  # else it has too many digits
                    return value
        except ValueError:
            continue
    return None


def answer() -> None:
    """Answers requests until there are no more."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    for request in sys.stdin:
        expression, lines = json.loads(request)
        signal.setitimer(signal.ITIMER_PROF, SEARCH_SECONDS)
        texts = [line.encode("latin-1") for line in lines]
        value = last_value(re.compile(expression.encode("latin-1")), texts)
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.write(json.dumps(value) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    answer()
