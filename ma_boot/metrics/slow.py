"""Which rank is slower than the others."""

from __future__ import annotations

import math
from typing import Dict, List, Mapping, NamedTuple, Set

SIGMAS = 3.0
TIMES = 3  # samples in a row
LEAST = 1.05  # times as long as the others': less is no reason to look for a cause
FEWEST_OTHERS = 3


class Slow(NamedTuple):
    """A rank, its seconds a step, and the mean of the others'."""

    rank: int
    step_time: float
    others: float


class SlowRanks:
    """Names a rank once when its steps have taken longer than those of the others, `TIMES` samples in a row.

    Longer is what is above their mean by three standard deviations. Both are those of the *other* ranks: one
    of n values is never more than (n - 1) / sqrt(n) deviations above a mean that includes it, which is 2.5
    for eight ranks. After as many samples that are not slow a rank may be named again.
    """

    def __init__(self) -> None:
        self.named: Set[int] = set()
        self._slow: Dict[int, int] = {}
        self._well: Dict[int, int] = {}

    def observe(self, step_times: Mapping[int, float]) -> List[Slow]:
        """The ranks that are to be named now, by the seconds a step of all ranks that have made one."""
        found = []
        for rank, seconds in step_times.items():
            others = [other for at, other in step_times.items() if at != rank]
            if len(others) < FEWEST_OTHERS:
                return []
            mean = sum(others) / len(others)
            sigma = math.sqrt(sum((other - mean) ** 2 for other in others) / (len(others) - 1))
            if seconds > max(mean + SIGMAS * sigma, mean * LEAST):
                self._slow[rank], self._well[rank] = self._slow.get(rank, 0) + 1, 0
            else:
                self._slow[rank], self._well[rank] = 0, self._well.get(rank, 0) + 1
            if self._well[rank] >= TIMES:
                self.named.discard(rank)
            if self._slow[rank] >= TIMES and rank not in self.named:
                self.named.add(rank)
                found.append(Slow(rank, seconds, mean))
        return found
