"""What counts as activity."""

from __future__ import annotations

import math

import pytest

from ma_boot.node.observe.hangs.hang_state import ROUND_PAUSE, HangState, Judgement, LastActivity

BEFORE = LastActivity(when=100.0, cpu=7.0, checked=100.0, checked_cpu=7.0)


@pytest.mark.parametrize(
    ("cpu", "last_output", "when"),
    [
        (7.0, 90.0, 100.0),
        (7.45, 90.0, 100.0),
        (7.55, 90.0, 110.0),
        (7.0, 105.0, 105.0),
        (7.55, 105.0, 110.0),
    ],
    ids=["nothing", "polls", "computes", "prints", "both"],
)
def test_activity_is_output_or_more_cpu_time_than_polling_uses(
    cpu: float, last_output: float, when: float
) -> None:
    assert BEFORE.updated(110.0, cpu, last_output).when == when


@pytest.mark.parametrize(("now", "cpu"), [(100.1, 7.02), (100.5, 7.04), (101.0, 7.06)])
def test_a_tick_or_two_of_the_kernels_clock_are_no_activity(now: float, cpu: float) -> None:
    """Soon after the last activity they look like a large share: a rank that polls would never hang."""
    assert BEFORE.updated(now, cpu, last_output=90.0).when == BEFORE.when
    assert BEFORE.updated(now, cpu + 0.02, last_output=90.0).when == now


def test_rank_that_works_for_a_moment_is_active() -> None:
    """Ten minutes of nothing, then three seconds of work between two looks."""
    quiet = BEFORE.updated(700.0, 7.5, last_output=90.0)
    assert quiet.when == 100.0
    assert quiet.updated(730.0, 8.9, last_output=90.0).when == 100.0, "not more than polling uses"
    assert quiet.updated(730.0, 10.5, last_output=90.0).when == 730.0


def test_cpu_time_used_in_small_amounts_is_summed() -> None:
    """An eighth of a core, in looks that are too close to each other to be sure of it."""
    activity = BEFORE.updated(105.0, 7.0, last_output=105.0)
    for number in range(1, 41):
        activity = activity.updated(105.0 + 0.2 * number, 7.0 + 0.025 * number, last_output=105.0)
    assert activity.when > 105.0


IDLE = HangState.initial(100.0, 0.0).checked({7: (0.0, 0.0)}, 0.0)


def test_each_hanging_worker_is_new_once() -> None:
    after, first = IDLE.judged([7], 100.0)
    assert first == Judgement((7,), collect=True)
    assert after.judged([7], 112.5)[1].new == ()
    assert after.judged([], 112.5)[0].judged([7], 125.0)[1].new == (7,), "it was active meanwhile"


def test_hang_soon_after_a_collection_is_reported_without_new_stacks() -> None:
    state = IDLE.collected(90.0, 95.0, ranks_at_work=False)
    assert state.judged([7], 100.0)[1] == Judgement((7,), collect=False)
    assert state.judged([7], 95.0 + ROUND_PAUSE)[1] == Judgement((7,), collect=True)


def test_ranks_at_work_pause_the_judgement_for_a_timeout() -> None:
    state = IDLE.judged([7], 100.0)[0].collected(100.0, 105.0, ranks_at_work=True)
    paused, judgement = state.judged([7], 204.0)
    assert judgement == Judgement()
    assert paused.judged([7], 205.0)[1] == Judgement((7,), collect=True)


def test_time_of_a_collection_is_not_idle_time() -> None:
    assert IDLE.idle_seconds(7, 100.0) == 100.0
    assert IDLE.collected(90.0, 95.0, ranks_at_work=False).idle_seconds(7, 100.0) == 95.0


def test_other_signs_of_life_never_move_the_last_activity_back() -> None:
    assert IDLE.seen_alive({7: 60.0}).seen_alive({7: -math.inf}).idle_seconds(7, 100.0) == 40.0
