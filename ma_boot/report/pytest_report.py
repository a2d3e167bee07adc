"""The report of pytest on a failed test: MindSpore's guides start their trainings by `pytest -s`. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

# Headings of the report, of one test in it, and its last line; before pytest 6, times are in `seconds`.
FAILURES = r"={3,} (?:FAILURES|ERRORS) ={3,}$"
_TEST = r"_{3,} \S.{0,500} _{3,}$"
_END = r"={3,} (?:\d{1,9} \w{1,20}, ){0,9}?\d{1,9} (?:failed|errors?)\b.{0,200} in \d.{0,40} ?={3,}$"
_EXCEPTION = r"E {1,20}(\w[\w.]{0,200}(?:: ?.*)?)$"
_PLACE = r"(\S{1,4096}\.py):(\d{1,9}): \w"


class TestFailure(NamedTuple):
    """Report in lines `start` to `end`, without the last; exception and `file:line` of its first test."""

    start: int
    end: int
    words: str
    place: str


def failed_test_at(lines: Sequence[str], start: int) -> TestFailure | None:
    """Reads the report that begins in line `start`; None if its end is missing."""
    after = range(start + 1, len(lines))
    last = next((number for number in after if re.match(_END, lines[number])), None)
    if last is None:
        return None
    tests = [number for number in range(start + 1, last) if re.match(_TEST, lines[number])]
    first = lines[start : tests[1] if len(tests) > 1 else last]
    words = [match[1] for match in (re.match(_EXCEPTION, line) for line in first) if match]
    places = [match for match in (re.match(_PLACE, line) for line in first) if match]
    place = f"{places[-1][1]}:{places[-1][2]}" if places else ""
    return TestFailure(start, last + 1, words[0] if words else "a test has failed", place)
