"""Where a moment stands on the time line, and what its axis says. Pure."""

from __future__ import annotations

from typing import List, Tuple

UNITS = 1000.0  # the width of every drawing, which the browser stretches
MOST_TICKS = 8
_STEPS = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
    3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800,
)  # fmt: skip


def place(at: float, seconds: float) -> float:
    """Where the moment stands, from 0 to `UNITS`."""
    return min(UNITS, max(0.0, at / seconds * UNITS))


def figure(value: float) -> str:
    """A coordinate, as short as it goes."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def ticks(seconds: float) -> Tuple[float, List[Tuple[float, str]]]:
    """The seconds between two lines of the axis, and each line's moment with what it says."""
    step = next((step for step in _STEPS if seconds / step <= MOST_TICKS), seconds / MOST_TICKS)
    count = int(seconds / step + 1e-9)
    return step, [(number * step, _said(number * step, step)) for number in range(count + 1)]


def _said(at: float, step: float) -> str:
    if at == 0:
        return "0"
    if step < 1:
        return f"{at:.3f}".rstrip("0").rstrip(".") + " s"
    if step < 60 and at < 120:
        return f"{at:.0f} s"
    minutes, rest = divmod(round(at), 60)
    if step < 3600 and at < 7200:
        return f"{minutes}:{rest:02}" if step < 60 else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02} h"
