"""Time without a new step, and the looks that it causes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from ma_boot.node.observe.hangs.step_clock import SilentState, StepClock
from ma_boot.node.observe.metrics.progress import Reading

TIMEOUT = 100.0


def clock(*steps: tuple[int, float], took: float = 1.0) -> StepClock:
    """A clock that has read steps of one rank, each at its time."""
    state = StepClock()
    for step, at in steps:
        state = state.read([("rank 0", Reading(step, took, 0.5))], at)
    return state


def test_clock_runs_from_the_first_step_on() -> None:
    assert not StepClock().is_overdue(TIMEOUT, -math.inf, 1e9)
    state = clock((1, 10.0))
    assert not state.is_overdue(TIMEOUT, -math.inf, 109.9)
    assert state.is_overdue(TIMEOUT, -math.inf, 110.0)


def test_same_step_whose_loss_is_not_a_number_is_no_new_one() -> None:
    state = StepClock()
    for at in (0.0, 90.0):
        state = state.read([("rank 0", Reading(7, 1.0, float("nan")))], at)
    assert state.stepped == 0.0


def test_steps_of_each_process_have_a_time_of_their_own() -> None:
    state = clock((1, 10.0), (2, 20.0)).read([("rank 1", Reading(1, 1.0, 0.5))], 15.0)
    assert (state.steps, state.stepped) == ({"rank 0": 20.0, "rank 1": 15.0}, 20.0)


def test_long_steps_make_the_limit_longer_than_the_timeout() -> None:
    state = clock((1, 0.0), (2, 30.0), took=30.0)
    assert state.limit(TIMEOUT) == 600
    assert not state.is_overdue(TIMEOUT, -math.inf, 629.9)
    assert state.is_overdue(TIMEOUT, -math.inf, 630.0)


def test_same_step_with_the_same_loss_is_no_new_one() -> None:
    assert clock((7, 0.0), (7, 90.0)).is_overdue(TIMEOUT, -math.inf, 100.0)
    other = clock((7, 0.0)).read([("rank 0", Reading(7, None, 0.4))], 90.0)
    assert not other.is_overdue(TIMEOUT, -math.inf, 100.0), "the next epoch"
    elsewhere = clock((7, 0.0)).read([("rank 1", Reading(7, None, 0.5))], 90.0)
    assert not elsewhere.is_overdue(TIMEOUT, -math.inf, 100.0), "a step of any rank"


@pytest.mark.parametrize(
    ("printed", "now", "overdue"),
    [(50.0, 149.0, False), (50.0, 150.0, True), (299.0, 299.0, False), (299.0, 300.0, True)],
)
def test_output_in_new_words_postpones_the_look_for_three_limits(
    printed: float, now: float, overdue: bool
) -> None:
    assert clock((1, 0.0)).is_overdue(TIMEOUT, printed, now) is overdue


def test_look_that_finds_ranks_at_work_starts_the_clock_anew() -> None:
    state = clock((1, 0.0)).looked(100.0, at_work=True)
    assert (state.looks, state.stepped) == (0, 0.0)
    assert not state.is_overdue(TIMEOUT, -math.inf, 199.0)


def test_looks_without_work_are_counted_until_the_next_step() -> None:
    state = clock((1, 0.0)).looked(100.0, at_work=False).looked(200.0, at_work=False)
    assert state.looks == 2
    assert state.read([("rank 0", Reading(2, 1.0, 0.4))], 250.0).looks == 0


def test_looks_at_silent_ranks_at_work_become_rare() -> None:
    state, pauses = SilentState(), []
    for _ in range(8):
        state = state.looked(0.0, TIMEOUT, at_work=True)
        pauses.append(state.due)
    assert pauses == [100, 200, 400, 800, 1600, 3200, 3600, 3600]
    assert state.looked(0.0, TIMEOUT, at_work=False) == SilentState(25.0, 0.0, 1)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.floats(0.1, 50)), min_size=1, max_size=30), st.floats(1, 1000)
)
def test_no_look_comes_before_the_limit(steps: list[tuple[int, float]], timeout: float) -> None:
    state, now = StepClock(), 0.0
    for step, took in steps:
        now += took
        state = state.read([("rank 0", Reading(step, took, None))], now)
    assert not state.is_overdue(timeout, -math.inf, state.since + state.limit(timeout) * 0.99)
    assert state.is_overdue(timeout, -math.inf, state.since + state.limit(timeout) * 1.01)


def test_reason_names_the_usual_step_time_only_where_it_is_known() -> None:
    assert str(clock((1, 0.0), (2, 0.5), took=0.532).why_overdue(100.5)) == (
        "no new step for 100 s; before, a step took 0.532 s"
    )
    together = StepClock().read([("rank 0", Reading(1, None, 0.5)), ("rank 0", Reading(2, None, 0.4))], 0.0)
    assert str(together.why_overdue(100.0)) == "no new step for 100 s"
