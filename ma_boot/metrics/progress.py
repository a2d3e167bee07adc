"""How far a training is, by what one of its processes prints."""

from __future__ import annotations

import math
from typing import Callable, Dict, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from ma_boot.metrics.patterns import KNOWN, STEP_TIME, Pattern

LINES = 200  # the last ones of a text, that are searched for the user's patterns
LINE_BYTES = 1000
_LINE_ENDS = (b"\n", b"\r")

Search = Callable[[Pattern, Sequence[bytes]], Optional[float]]


class Reading(NamedTuple):
    """What was printed last in a period: None for what was not; `step_time` in seconds."""

    step: Optional[int] = None
    step_time: Optional[float] = None
    loss: Optional[float] = None
    values: Mapping[str, float] = {}


class TrainingProgress:
    """Reads the output of one process, piece by piece.

    Where no step time is printed, it is the time between the last outputs of two pieces, divided by the steps
    in between. `search` returns the last value of one of the user's patterns in lines.
    """

    def __init__(self, own: Sequence[Pattern] = (), search: Search = lambda pattern, lines: None) -> None:
        self.position = 0  # of the first byte that was not read yet
        self._own = own
        self._search = search
        self._replaced = {name for pattern in own for name in pattern.names}
        self._seen: Set[bytes] = set()
        self._last = (0, 0)  # epoch and step
        self._counted_at: Optional[float] = None

    def read(self, received: int, text: bytes, heard: float) -> Reading:
        """What is new in `text`, the last of `received` bytes, which came at `heard` (monotonic seconds).

        A line that is not complete yet is left to the next piece.
        """
        if len(text) < received - self.position:  # the beginning is lost, with a part of a line
            text = text[_first_end(text) :]
        whole = text[: _last_end(text)] or (text if len(text) > LINE_BYTES else b"")
        self.position = received - (len(text) - len(whole))
        found, steps = self._known(whole)
        found.update(self._given(whole))
        if steps and STEP_TIME not in found and self._counted_at is not None:
            found[STEP_TIME] = (heard - self._counted_at) / steps
        if steps:
            self._counted_at = heard
        step = found.pop("step", math.nan)
        count = int(step) if math.isfinite(step) else None
        return Reading(count, found.pop(STEP_TIME, None), found.pop("loss", None), found)

    def _known(self, text: bytes) -> Tuple[Dict[str, float], int]:
        """The last values, and how many steps were made."""
        found: Dict[str, float] = {}
        times: Dict[str, Tuple[float, int]] = {}
        steps = 0
        for pattern in KNOWN:
            if pattern.marker not in text:
                continue
            self._seen.add(pattern.marker)
            if pattern.beside and pattern.beside not in self._seen:
                continue
            for match in pattern.expression.finditer(text):
                values = dict(zip(pattern.names, map(float, match.groups())))
                if "step" in values:
                    steps += self._advance(int(values.pop("epoch", 0)), int(values["step"]))
                if STEP_TIME in values:
                    values[STEP_TIME] = pattern.seconds(values[STEP_TIME])
                    total, count = times.get(STEP_TIME, (0.0, 0))
                    times[STEP_TIME] = (total + values[STEP_TIME], count + 1)
                found.update(values)
        if times:
            total, count = times[STEP_TIME]
            found[STEP_TIME] = total / count
        return {name: value for name, value in found.items() if name not in self._replaced}, steps

    def _advance(self, epoch: int, step: int) -> int:
        """The steps since the last line; in a new epoch they are counted from its beginning."""
        before, self._last = self._last, (epoch, step)
        if epoch == before[0]:
            return max(0, step - before[1])
        return step if epoch > before[0] else 0

    def _given(self, text: bytes) -> Dict[str, float]:
        """The last value of each of the user's patterns."""
        if not self._own:
            return {}
        lines = text.replace(b"\r", b"\n").rsplit(b"\n", LINES + 1)[-LINES - 1 :]
        found: Dict[str, float] = {}
        for pattern in self._own:
            value = self._search(pattern, [line[:LINE_BYTES] for line in lines])
            if value is not None:
                found[pattern.names[0]] = pattern.seconds(value)
        return found


def _first_end(text: bytes) -> int:
    """Where the first whole line begins."""
    ends = [at for at in map(text.find, _LINE_ENDS) if at >= 0]
    return min(ends) + 1 if ends else len(text)


def _last_end(text: bytes) -> int:
    """Where the last whole line ends."""
    return max(map(text.rfind, _LINE_ENDS)) + 1
