"""Slow ranks, and a loss that is not finite."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping

import pytest

from ma_boot.node.observe.metrics.progress import Reading
from ma_boot.node.observe.metrics.training_rules import LossNotFinite, SlowRank, SlowRanks, TrainingWatch

EVEN = {rank: 1.0 + rank / 100 for rank in range(8)}


def named_by(samples: Iterable[Mapping[int, float]]) -> list[list[SlowRank]]:
    """The ranks that are named after each sample of step times."""
    slow, named = SlowRanks(), []
    for step_times in samples:
        slow, found = slow.after(step_times)
        named.append(list(found))
    return named


def test_a_rank_that_is_slower_three_times_is_named_once() -> None:
    named = named_by([{**EVEN, 3: 1.5}] * 6)
    assert [len(ranks) for ranks in named] == [0, 0, 1, 0, 0, 0]
    assert named[2] == [SlowRank(3, 1.5, sum(EVEN[rank] for rank in EVEN if rank != 3) / 7)]


def test_two_slow_samples_are_not_enough() -> None:
    assert named_by({**EVEN, 3: seconds} for seconds in (1.5, 1.5, 1.0, 1.5, 1.5, 1.0)) == [[]] * 6


def test_a_recovered_rank_is_named_again() -> None:
    named = named_by({**EVEN, 3: seconds} for seconds in (2, 2, 2, 1, 1, 1, 2, 2, 2))
    assert [len(ranks) for ranks in named] == [0, 0, 1, 0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    "times",
    [
        dict.fromkeys(range(8), 1.0),
        {**dict.fromkeys(range(8), 1.0), 3: 1.04},
        {**{rank: 1.0 + rank % 2 for rank in range(8)}, 3: 3.0},
        {0: 1.0, 1: 1.0, 2: 9.0},
        {},
    ],
    ids=["equal", "a little", "all vary", "too few", "none"],
)
def test_small_differences_and_few_ranks_name_no_rank(times: dict[int, float]) -> None:
    assert named_by([times] * 4) == [[]] * 4


def test_two_slow_ranks_of_eight_hide_each_other() -> None:
    """The step time of the one is part of the other's deviation."""
    assert named_by([{**EVEN, 3: 5.0, 4: 5.0}] * 3) == [[], [], []]


def test_false_alarms_are_rare() -> None:
    """A day of eight ranks with noise of 10 %, sampled every 10 s."""
    chance = random.Random(1)
    named = named_by({rank: chance.gauss(1.0, 0.1) for rank in range(8)} for _ in range(8640))
    assert sum(map(len, named)) <= 1


def test_ranks_are_compared_once_all_have_a_new_step_time() -> None:
    watch = TrainingWatch()
    found: list[SlowRank] = []
    for _ in range(3):
        for rank, seconds in {**EVEN, 3: 1.5}.items():
            watch, _ = watch.after_reading(f"rank {rank}", rank, Reading(step_time=seconds))
        assert watch.after_reading("rank 0", 0, Reading())[0] == watch
        watch, slow = watch.compared()
        assert watch.compared() == (watch, ())
        found += slow
    assert [rank.rank for rank in found] == [3]
    partly, _ = watch.after_reading("rank 0", 0, Reading(step_time=1.0))
    assert partly.compared() == (partly, ())


@pytest.mark.parametrize("loss", [math.nan, -math.inf])
def test_a_loss_that_is_not_finite_is_found_once(loss: float) -> None:
    watch, found = TrainingWatch().after_reading("rank 0", 0, Reading(7, loss=loss))
    assert found == LossNotFinite("rank 0", 7, loss)
    assert watch.after_reading("rank 1", 1, Reading(8, loss=loss))[1] is None


def test_a_finite_loss_is_no_finding() -> None:
    assert TrainingWatch().after_reading("rank 0", 0, Reading(7, loss=1e30)) == (TrainingWatch(), None)
