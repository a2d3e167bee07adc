"""Positions on the time axis, and the moments that the axis shows. Pure."""

from __future__ import annotations

from typing import List, NamedTuple, Tuple

UNITS = 1000.0  # the width of every drawing, which the browser stretches
MOST_TICKS = 8
NEAR_THE_END = 88.0  # percent of the axis
_STEPS = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
    3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800,
)  # fmt: skip


class Moment(NamedTuple):
    """A moment of the axis: its label, and its distance in percent from the `left` or the `right` end."""

    side: str
    percent: str
    label: str


class Scale(NamedTuple):
    """The axis of a job: the distance of its grid lines in 1/1000 percent, and its moments."""

    tick: str
    moments: Tuple[Moment, ...]


def scale(seconds: float) -> Scale:
    """The axis of a job of this duration."""
    step, labels = ticks(seconds)
    moments = (_moment(place(at, seconds) / UNITS * 100, label) for at, label in labels)
    return Scale(figure(step / seconds * 100000), tuple(moments))


def _moment(left: float, label: str) -> Moment:
    """The label is to the right of its line; near the end to the left, so that it stays inside."""
    near_the_end = left >= NEAR_THE_END
    return Moment("right", figure(100 - left), label) if near_the_end else Moment("left", figure(left), label)


def place(at: float, seconds: float) -> float:
    """The position of a moment, from 0 to `UNITS`."""
    return min(UNITS, max(0.0, at / seconds * UNITS))


def figure(value: float) -> str:
    """A coordinate, as short as possible."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def ticks(seconds: float) -> Tuple[float, List[Tuple[float, str]]]:
    """The seconds between two grid lines, and the time and label of each line."""
    step = next((step for step in _STEPS if seconds / step <= MOST_TICKS), seconds / MOST_TICKS)
    count = int(seconds / step + 1e-9)
    return step, [(number * step, _label(number * step, step)) for number in range(count + 1)]


def _label(at: float, step: float) -> str:
    if at == 0:
        return "0"
    if step < 60 and at < 120:
        return f"{at:.3f}".rstrip("0").rstrip(".") + " s"
    minutes, rest = divmod(round(at), 60)
    if step < 3600 and at < 7200:
        return f"{minutes}:{rest:02}" if step < 60 else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02} h"
