"""Rules for what the ranks print: a rank that is slower than the others, and a loss that is not finite. Pure.

output of rank k -> TrainingWatch.after_reading -> LossNotFinite, once in a run
                    (all ranks have a new step time)
                    TrainingWatch.compared      -> SlowRank, once until the rank has recovered
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from ma_boot.node.observe.metrics.progress import Reading

# Standard deviations above the mean of the other ranks from which a step is slow.
SIGMAS = 3.0
# Consecutive samples that change the judgement of a rank.
STREAK = 3
# Ratio to the mean of the other ranks; a smaller difference is not worth an investigation.
LEAST_RATIO = 1.05
# A standard deviation of fewer values means little.
FEWEST_OTHERS = 3


class SlowRank(NamedTuple):
    """A slow rank, its seconds per step, and the mean of the other ranks."""

    rank: int
    step_time: float
    others: float


class LossNotFinite(NamedTuple):
    """The label of a rank, its step (None if unknown) and its loss."""

    label: str
    step: int | None
    loss: float


class SlowRanks(NamedTuple):
    """The ranks that were named as slow, and the streak of each rank: slow samples, or minus the normal ones.

    A step is slow if it takes `SIGMAS` standard deviations longer than the mean. Both are those of the
    *other* ranks: one of n values is never more than (n - 1) / sqrt(n) deviations above a mean that includes
    it, which is 2.5 for eight ranks.
    """

    named: frozenset[int] = frozenset()
    streaks: Mapping[int, int] = MappingProxyType({})

    def after(self, step_times: Mapping[int, float]) -> tuple[SlowRanks, tuple[SlowRank, ...]]:
        """Returns the next state, and the ranks to name now, by the seconds per step of all ranks."""
        if len(step_times) <= FEWEST_OTHERS:
            return self, ()
        streaks, named, found = dict(self.streaks), set(self.named), []
        for rank, seconds in step_times.items():
            others = [other for at, other in step_times.items() if at != rank]
            before = streaks.get(rank, 0)
            streaks[rank] = max(before, 0) + 1 if _is_slow(seconds, others) else min(before, 0) - 1
            if streaks[rank] <= -STREAK:
                named.discard(rank)
            elif streaks[rank] >= STREAK and rank not in named:
                named.add(rank)
                found.append(SlowRank(rank, seconds, sum(others) / len(others)))
        return SlowRanks(frozenset(named), streaks), tuple(found)


def _is_slow(seconds: float, others: list[float]) -> bool:
    mean = sum(others) / len(others)
    sigma = math.sqrt(sum((other - mean) ** 2 for other in others) / (len(others) - 1))
    return seconds > max(mean + SIGMAS * sigma, mean * LEAST_RATIO)


class TrainingWatch(NamedTuple):
    """State of the rules for the ranks of a node; each method returns the next state and its findings.

    `step_times` are those since the last comparison, by rank; `reporting` are the ranks that print steps.
    """

    step_times: Mapping[int, float] = MappingProxyType({})
    reporting: frozenset[int] = frozenset()
    slow: SlowRanks = SlowRanks()
    has_reported_loss: bool = False

    def after_reading(
        self, label: str, rank: int | None, new: Reading
    ) -> tuple[TrainingWatch, LossNotFinite | None]:
        """Takes a new reading of a process; `rank` is None for one that is no rank."""
        state = self
        if rank is not None and new.step_time is not None:
            step_times = {**self.step_times, rank: new.step_time}
            state = self._replace(step_times=step_times, reporting=self.reporting | {rank})
        # All later steps are lost as well, so the first one is enough.
        if new.loss is None or math.isfinite(new.loss) or self.has_reported_loss:
            return state, None
        return state._replace(has_reported_loss=True), LossNotFinite(label, new.step, new.loss)

    def compared(self) -> tuple[TrainingWatch, tuple[SlowRank, ...]]:
        """Compares the ranks once each that prints steps has a new step time."""
        if not self.step_times or len(self.step_times) < len(self.reporting):
            return self, ()
        slow, found = self.slow.after(self.step_times)
        return self._replace(slow=slow, step_times={}), found
