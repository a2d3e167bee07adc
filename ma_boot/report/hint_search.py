"""Search for known errors in the output of a process or in an error of OBS. Pure, but for the table file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ma_boot.report.explain import TRACEBACK, output_lines
from ma_boot.report.failure import MOST_LINES_AFTER, find_failure
from ma_boot.report.failure_blocks import CHAINED
from ma_boot.report.hint_table import END, ERROR, OBS, Hint, rows_for
from ma_boot.wording import Message
from path_mapping.errors import printable

MOST_HINTS = 3
MOST_LINES_AT_END = 100
LONGEST_LINE = 2000  # characters that are searched
LONGEST_MATCH = 80  # characters of a known text that are shown
# Ray's prefix of the lines of its workers.
_RAY_PREFIX = r"^\(\w[\w.:<>() -]{0,100}\bpid=\d{1,9}(?:, ip=[\d.]{1,15})?\) "
# A frame of a traceback; the lines of its source are indented further.
_FRAME = r'\s*File "[^"]{1,4096}", line \d+'
# Log lines below the level of warnings, and commands that a shell prints before it runs them.
_ORDINARY = r".{0,100}?(?<![\w=])(?:INFO|DEBUG)\b|\s*(?:\++ |export )"


class Match(NamedTuple):
    """A row of the table whose text was found, the text, and its place in what was searched."""

    row: Hint
    text: str
    groups: tuple[str, ...]
    start: int
    end: int

    @property
    def hint(self) -> Message:
        """The meaning and the remedy."""
        return Message(self.row.english, self.groups)


def find_hints(output: str, plog: str = "") -> list[str]:
    """Returns at most three hints for an output and a plog, each with the text that it is for."""
    found = matches_in(output, plog)[:MOST_HINTS]
    return [Message.of("{}: {}", printable(match.text)[:LONGEST_MATCH], match.hint) for match in found]


def store_hint(message: str) -> Message | None:
    """Returns the hint for an error message of OBS or of the network; None without one."""
    return next((match.hint for match in _matches(message, {OBS: 0})), None)


def matches_in(output: str, plog: str = "") -> list[Match]:
    """Returns the known errors of an output: special ones in the order of the table, else general ones.

    Last resorts count where nothing else matches. Those of the errors of CANN's log (`plog`) follow: a
    special one there says more than a general one.
    """
    text, start = _end_with_error(output) if output else ("", 0)
    found = _matches(text, {END: 0, ERROR: start}) if text else []
    known = {match.row for match in found}
    lines = "\n".join(line[:LONGEST_LINE] for line in plog.splitlines())
    in_plog = _matches(lines, {END: 0, ERROR: 0}) if lines else []
    found += [match for match in in_plog if match.row not in known]
    level = min((match.row.level for match in found), default=0)
    return [match for match in found if match.row.level == level]


def _matches(text: str, starts: Mapping[str, int]) -> list[Match]:
    """Returns the rows that match from the start of their place on; each piece of the text has one hint."""
    found: list[Match] = []
    for row, expression in rows_for(starts):
        match = expression.search(text, starts[row.where])
        if match and not any(match.start() < other.end and other.start < match.end() for other in found):
            groups = tuple(printable(group or "?") for group in match.groups())
            found.append(Match(row, match.group(0), groups, start=match.start(), end=match.end()))
    return found


def _end_with_error(output: str) -> tuple[str, int]:
    """Returns the last lines of an output without ordinary ones, and the offset at which the error begins."""
    lines = output_lines(output)
    start = _first_line_of_error(output, lines)
    first = max(0, min(start, len(lines) - MOST_LINES_AT_END))
    before = _without_ordinary(lines[first:start])
    text = "".join(f"{line}\n" for line in before)
    return text + "\n".join(_without_ordinary(lines[start:])), len(text)


def _first_line_of_error(output: str, lines: Sequence[str]) -> int:
    """Returns the first line of the exception at the end, with those that led to it.

    Without an exception the last lines count.
    """
    starts = [number for number, line in enumerate(lines) if TRACEBACK in line]
    failure = find_failure(output)
    if not starts or failure is None or not failure.is_exception:
        return max(0, len(lines) - MOST_LINES_AFTER)
    while len(starts) > 1 and any(re.match(CHAINED, line) for line in lines[starts[-2] : starts[-1]]):
        starts.pop()
    return starts[-1]


def _without_ordinary(lines: Sequence[str]) -> list[str]:
    """Removes what is no error: frames with their source lines, information, echoed commands."""
    kept, in_frame = [], False
    for line in lines:
        shown = re.sub(_RAY_PREFIX, "", line[:LONGEST_LINE])
        in_frame = re.match(_FRAME, shown) is not None or (in_frame and shown.startswith("    "))
        if not in_frame and not re.match(_ORDINARY, shown):
            kept.append(shown)
    return kept
