"""Time without a new step of the training, and the moments at which the ranks' stacks decide. Pure.

              a step                          no new step for max(timeout, STEPS_MISSED x median step time)
    (no step yet) ---> clock runs ---------------------------------------------> overdue: a look at all ranks
                           ^                                                          |
                           |-- a rank is at work: the clock starts anew --------------|
                           `-- hang: reported once, and looked at again --------------'

Output in new words postpones a look, up to PRINTING_LIMITS times the limit: an evaluation prints lines that
were not there before, and a rank that waits for ever may count its seconds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ma_boot.node.observe.metrics.progress import Reading
from ma_boot.wording import Message

# A step that takes so many times the median is a hang, if it also takes longer than the timeout.
STEPS_MISSED = 20.0
# Step times of which the median is taken.
LATEST_TIMES = 64
# Limits without a step after which output in new words postpones the look no longer.
PRINTING_LIMITS = 3.0


class StepClock(NamedTuple):
    """Steps that the ranks of this node have printed. Times are monotonic seconds.

    `shown` are the last step and loss of each process, `steps` the time of its last new step, and `since`
    that of the last step or look that found ranks at work. `looks` are the consecutive looks that found none
    at work.
    """

    shown: Mapping[str, tuple[int, float | None]] = {}
    steps: Mapping[str, float] = {}
    times: tuple[float, ...] = ()
    since: float = -math.inf
    looks: int = 0

    @property
    def runs(self) -> bool:
        """True once a step was shown."""
        return bool(self.shown)

    @property
    def stepped(self) -> float:
        """Time of the last new step of any process."""
        return max(self.steps.values(), default=-math.inf)

    @property
    def median(self) -> float:
        """Median of the latest step times in seconds; 0 before the second step."""
        return statistics.median(self.times) if self.times else 0.0

    def read(self, readings: Iterable[tuple[str, Reading]], now: float) -> StepClock:
        """After new output of processes, each by its label; the same step with the same values is none."""
        state = self
        for label, new in readings:
            # A loss that is not a number differs from itself.
            loss = None if new.loss is None or math.isnan(new.loss) else new.loss
            if new.step is None or state.shown.get(label) == (new.step, loss):
                continue
            times = state.times if new.step_time is None else (*state.times, new.step_time)[-LATEST_TIMES:]
            shown = {**state.shown, label: (new.step, loss)}
            steps = {**state.steps, label: now}
            state = state._replace(shown=shown, steps=steps, times=times, since=now, looks=0)
        return state

    def limit(self, timeout: float) -> float:
        """Seconds without a new step that are a hang."""
        return max(timeout, STEPS_MISSED * self.median)

    def is_overdue(self, timeout: float, printed: float, now: float) -> bool:
        """Returns whether a look is due; `printed` is the time of the last output in new words."""
        limit = self.limit(timeout)
        if not self.runs or now - self.since < limit:
            return False
        return now - printed >= limit or now - self.since >= PRINTING_LIMITS * limit

    def why_overdue(self, now: float) -> Message:
        """Describes the time without a new step; a step time is known after two steps in different output."""
        seconds = f"{now - self.stepped:.0f}"
        if not self.median:
            return Message.of("no new step for {} s", seconds)
        return Message.of("no new step for {} s; before, a step took {} s", seconds, f"{self.median:.3g}")

    def looked(self, now: float, at_work: bool) -> StepClock:
        """After a look; the next one is due after another limit."""
        return self._replace(since=now, looks=0 if at_work else self.looks + 1)


# Seconds; longest pause between two looks at ranks that print no steps and are at work.
LONGEST_PAUSE = 3600.0
# Share of the timeout after which a first look without progress is repeated.
REPEAT_SHARE = 0.25


class SilentState(NamedTuple):
    """Looks at ranks that use CPU time, but have printed nothing for the timeout, in a job without steps.

    A healthy rank may be seen in the same wait twice, so two looks in a row must find no progress. Looks at
    ranks at work become rare.
    """

    due: float = -math.inf
    pause: float = 0.0
    looks: int = 0

    def looked(self, now: float, timeout: float, at_work: bool) -> SilentState:
        """After a look."""
        if not at_work:
            return SilentState(now + REPEAT_SHARE * timeout, 0.0, self.looks + 1)
        pause = min(LONGEST_PAUSE, max(timeout, 2 * self.pause))
        return SilentState(now + pause, pause)
