"""Parser of event files that tolerates any content. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Callable, NamedTuple

from ma_boot.wording import text_in

# Characters of one string.
MOST_CHARACTERS = 4000
# Items of one list; as many ranks may hang at the same place.
MOST_PARTS = 4096
# Nested lists and objects.
MOST_DEPTH = 8
# Samples of a file that are parsed: days of training have tens of thousands, a chart needs a few hundred.
MOST_MEASURED = 600
MEASURED = '"kind": "metrics"'
# Control characters, marks of direction, invisible spaces, lone surrogates; not U+200C and U+200D, which join
# letters and emoji. Compiled on first use only: that is slow, and most texts have no such character.
_CONTROLS = (
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    r"\ufffe\uffff]"
)

Event = Mapping[str, Any]
# Each event with its moment in seconds.
Timed = tuple[tuple[float, Event], ...]


class EventFile(NamedTuple):
    """Events of one file in order, and the number of lines that could not be parsed."""

    events: tuple[Event, ...]
    unreadable: int


def read_events(text: str, hide: Callable[[str], str] = str) -> EventFile:
    """Parses JSON lines; `hide` masks the secrets in each string.

    A line that is torn (its writer was killed, or has not finished it) or not an event is counted as
    unreadable.
    """
    events: list[Event] = []
    unreadable = 0
    lines = text.split("\n")
    every = 1 + sum(MEASURED in line for line in lines) // MOST_MEASURED
    measured = 0
    for line in lines:
        if not line.strip():
            continue
        if every > 1 and MEASURED in line:
            measured += 1
            if measured % every:
                continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            event = None
        if isinstance(event, dict) and isinstance(event.get("kind"), str):
            events.append({str(name)[:100]: _clean(value, hide, MOST_DEPTH) for name, value in event.items()})
        else:
            unreadable += 1
    return EventFile(tuple(events), unreadable)


def printable(text: str) -> str:
    """Removes characters that a page cannot hold, or that reorder or hide parts of a text."""
    return text if text.isprintable() else re.sub(_CONTROLS, "", text)


def _clean(value: Any, hide: Callable[[str], str], depth: int) -> Any:
    if isinstance(value, str):
        return hide(printable(value[: 2 * MOST_CHARACTERS]))[:MOST_CHARACTERS]
    if isinstance(value, list) and depth:
        return [_clean(part, hide, depth - 1) for part in value[:MOST_PARTS]]
    if isinstance(value, dict) and depth:
        some = list(value.items())[:200]
        return {hide(printable(name[:200]))[:100]: _clean(part, hide, depth - 1) for name, part in some}
    return value if isinstance(value, (int, float)) else None


def number(event: Event, name: str, highest: float = 1e12) -> float | None:
    """Returns a number from 0 to `highest`; None for any other value."""
    value: Any = event.get(name)
    # NaN fails both comparisons; a bool is an int, but not by its type.
    known = type(value) in (int, float) and 0 <= value <= highest
    return float(value) if known else None


def whole(event: Event, name: str, highest: int = 1_000_000) -> int | None:
    """Returns a whole number from 0 to `highest`; None for any other value."""
    value = event.get(name)
    return value if type(value) is int and 0 <= value <= highest else None


def words(event: Event, name: str, most: int = 300) -> str:
    """Returns a text whose parts are cut to `most` characters; empty for any other value."""
    return text_in(event, name, lambda text: text[:most])


def items(event: Event, name: str) -> list[Any]:
    """Returns a list; empty for any other value."""
    value = event.get(name)
    return value if isinstance(value, list) else []


def several(event: Event, name: str, most: int = 100) -> tuple[str, ...]:
    """Returns the strings of a list, each cut to `most` characters; empty for any other value."""
    return tuple(part[:most] for part in items(event, name) if isinstance(part, str))


def clocked(events: Sequence[Event]) -> Timed:
    """Returns each event of one run with its Unix time in seconds.

    The first event with both clocks fixes the offset of the monotonic clock, which gives all later times:
    setting the wall clock meanwhile does not matter.
    """
    offset: float | None = None
    last = 0.0
    times: list[float] = []
    for event in events:
        wall, steady = number(event, "time", 4e9), number(event, "monotonic_ns", 1e19)
        if offset is None and wall is not None and steady is not None:
            offset = wall - steady / 1e9
        if offset is not None and steady is not None:
            last = offset + steady / 1e9
        elif wall is not None:
            last = wall
        times.append(last)
    known = next((at for at in times if at > 0), 0.0)
    return tuple((max(at, known), event) for at, event in zip(times, events))


def moment(event: Event, name: str, at: float) -> float:
    """Returns the Unix time of a monotonic field of an event at `at`; `at` if the field is missing."""
    steady, field = number(event, "monotonic_ns", 1e19), number(event, name, 1e19)
    return at if steady is None or field is None else at - (steady - field) / 1e9
