"""When a rank is called slow."""

from __future__ import annotations

import random

import pytest

from ma_boot.node.observe.sampler import Slow, SlowRanks

EVEN = {rank: 1.0 + rank / 100 for rank in range(8)}


def test_a_rank_that_is_slower_three_times_is_named_once() -> None:
    slow = SlowRanks()
    named = [slow.observe({**EVEN, 3: 1.5}) for _ in range(6)]
    assert [len(names) for names in named] == [0, 0, 1, 0, 0, 0]
    assert named[2] == [Slow(3, 1.5, sum(EVEN[rank] for rank in EVEN if rank != 3) / 7)]


def test_twice_is_not_enough() -> None:
    slow = SlowRanks()
    assert [slow.observe({**EVEN, 3: seconds}) for seconds in (1.5, 1.5, 1.0, 1.5, 1.5, 1.0)] == [[]] * 6


def test_after_three_samples_that_are_well_it_is_named_again() -> None:
    slow = SlowRanks()
    named = [len(slow.observe({**EVEN, 3: seconds})) for seconds in (2, 2, 2, 1, 1, 1, 2, 2, 2)]
    assert named == [0, 0, 1, 0, 0, 0, 0, 0, 1]


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
def test_what_is_not_slow(times: dict[int, float]) -> None:
    slow = SlowRanks()
    assert [slow.observe(times) for _ in range(4)] == [[]] * 4


def test_two_slow_ranks_of_eight_are_both_named_or_neither() -> None:
    slow = SlowRanks()
    named = [slow.observe({**EVEN, 3: 5.0, 4: 5.0}) for _ in range(3)]
    assert named == [[], [], []], "each hides the other: their own difference is the others' deviation"


def test_false_alarms_are_rare() -> None:
    """A day of eight ranks with noise of 10 %, sampled every 10 s."""
    chance, slow = random.Random(1), SlowRanks()
    named = sum(len(slow.observe({rank: chance.gauss(1.0, 0.1) for rank in range(8)})) for _ in range(8640))
    assert named <= 1
