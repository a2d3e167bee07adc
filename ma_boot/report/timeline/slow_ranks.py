"""Slow ranks of a job, by the samples of all its nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ma_boot.report.timeline.job_timeline import Incident, NodeTimeline
from ma_boot.wording import Message

# Samples of a rank: a minute.
FEWEST_SAMPLES = 6
FEWEST_OTHERS = 3
# Standard deviations of the other ranks.
SIGMAS = 3.0
# Factor to the step time of the others; less is no reason to look for a cause.
LONGER = 1.05
# Factor to the CPU use of the others, which wait for the slow rank.
BUSIER = 2.0
# Cores; a rank that uses less does not compute.
WORKS = 0.5
MOST_NAMED = 4


class _Usual(NamedTuple):
    """A rank, its node, and the median of its samples."""

    node: int
    rank: str
    value: float


def slow_ranks(nodes: Sequence[NodeTimeline], at: float) -> list[Incident]:
    """Returns the ranks that were slower than the others during the last run, as incidents at this moment.

    If the steps of all take the same time, as they wait for each other in each step, it is the rank that
    computes while the others do not.
    """
    steps, cores = (list(_usual(nodes, metric)) for metric in ("step_time", "cpu"))
    times = [rank.value for rank in steps]
    if not times or max(times) > LONGER * min(times):
        template = "{} s a step, the others {} s"
        slow = _above(steps, LONGER)
    else:
        template = "{} cores, while the others wait for it with {}"
        slow = {rank: others for rank, others in _above(cores, BUSIER).items() if rank.value >= WORKS}
    return [
        Incident(
            kind="slow rank",
            at=at,
            node=rank.node,
            label=f"rank {rank.rank}",
            text=Message.of(template, f"{rank.value:.2f}", f"{others:.2f}"),
        )
        for rank, others in slow.items()
    ]


def _usual(nodes: Sequence[NodeTimeline], metric: str) -> Iterator[_Usual]:
    """Yields the ranks with enough samples of a metric; the first sample is left out, as the first step
    compiles.
    """
    from statistics import median  # only where there are samples

    for node in nodes:
        values: dict[str, list[float]] = {}
        for sample in node.last.samples:
            for rank, value in sample.ranks.get(metric, {}).items():
                values.setdefault(rank, []).append(value)
        for rank, series in values.items():
            if len(series) > FEWEST_SAMPLES and rank.isdecimal():
                yield _Usual(node.number, rank, median(series[1:]))


def _above(ranks: Sequence[_Usual], times: float) -> dict[_Usual, float]:
    """Returns the ranks that exceed the mean of the others by this factor and by three standard deviations,
    with that mean.
    """
    if len(ranks) <= FEWEST_OTHERS:
        return {}
    from statistics import mean, stdev

    slow: dict[_Usual, float] = {}
    for rank in sorted(ranks, key=lambda rank: -rank.value)[:MOST_NAMED]:
        others = [other.value for other in ranks if other is not rank]
        if rank.value > max(times * mean(others), mean(others) + SIGMAS * stdev(others)):
            slow[rank] = mean(others)
    return slow
