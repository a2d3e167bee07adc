"""Reports about uploads to shared outputs: what node 0 makes of them, and what nobody believes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from ma_boot.node.peers.upload_states import (
    FINISHED,
    IDLE,
    WRITING,
    UploadsSeen,
    UploadState,
    UploadStates,
    read_seen,
    read_state,
)

STATES = (IDLE, WRITING, FINISHED)
REPORTS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 9), st.sampled_from(STATES)),
    unique_by=lambda report: report[:2],
)


@given(REPORTS, st.sets(st.integers(0, 3)))
def test_last_report_of_each_living_node_counts_in_any_order(
    reports: list[tuple[int, int, str]], alive: Any
) -> None:
    states = UploadStates()
    for node, number, state in reports:
        states = states.with_state(node, UploadState(number, state))
    seen = states.seen(alive)
    last = {node: state for node, _, state in sorted(reports)}
    assert seen.writing == {node for node in alive if last.get(node) == WRITING}
    assert seen.unfinished == {node for node in alive if last.get(node) != FINISHED}
    for node, number, _ in reports:
        assert seen.has_heard(node, number)
        assert not seen.has_heard(node, 10)
    assert read_seen(seen.body(), 4) == seen


@given(st.integers(0, 100), st.sampled_from(STATES))
def test_report_survives_the_way_over_the_channel(number: int, state: str) -> None:
    assert read_state(UploadState(number, state).body()) == UploadState(number, state)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"number": 1},
        {"number": -1, "state": IDLE},
        {"number": True, "state": IDLE},
        {"number": "1", "state": IDLE},
        {"number": 1, "state": "gone"},
        {"number": 1, "state": [IDLE]},
    ],
)
def test_invalid_reports_are_dropped(body: Any) -> None:
    assert read_state(body) is None


GOOD = UploadsSeen({0: 1, 1: 2}, frozenset({1}), frozenset({0, 1})).body()


@pytest.mark.parametrize(
    "wrong",
    [
        {"heard": None},
        {"heard": [[0]]},
        {"heard": [[0, -1]]},
        {"heard": [[2, 1]]},
        {"heard": [["0", 1]]},
        {"heard": {"0": 1}},
        {"writing": [2]},
        {"writing": [True]},
        {"writing": 1},
        {"unfinished": [None]},
    ],
)
def test_invalid_reports_of_node_0_are_dropped(wrong: Any) -> None:
    assert read_seen(GOOD, 2) is not None
    assert read_seen({**GOOD, **wrong}, 2) is None
