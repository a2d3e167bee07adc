"""Requests for checkpoints, turn by turn: by the user's file, by the time limit, and their problems."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hypothesis import given, strategies as st

from ma_boot.node.observe.peers import PeerMessage
from ma_boot.node.observe.saving.save_agreement import AHEAD_SECONDS, ASK_SECONDS, SaveAgreement
from ma_boot.node.observe.saving.save_state import (
    MARGIN_SECONDS,
    POLL_SECONDS,
    Announcement,
    SaveRequest,
    SaveState,
    due_before,
)

BY_FILE = SaveRequest("logs/save asks for a checkpoint", by_file=True)
BY_LIMIT = SaveRequest("the job's time ends")


def message(node: int, word: str, call: int, attempt: int = 1) -> PeerMessage:
    body: dict[str, Any] = {"attempt": attempt, "word": word, "call": call}
    return PeerMessage(node, "save", body, 0.0)


def turns(state: SaveState, request: SaveRequest, highest: Sequence[int]) -> SaveState:
    """The state after one turn for each of these highest calls."""
    for seconds, call in enumerate(highest):
        state = state.after(request, (), call, float(seconds))
    return state


@given(st.floats(10.0, 1e6))
def test_the_call_comes_before_the_time_limit(limit: float) -> None:
    """It is at most 10 s ahead of the ranks, and by no longer than they have been running."""
    due = due_before(limit)
    assert due + min(AHEAD_SECONDS, due) + 3 * POLL_SECONDS <= limit
    assert limit - due <= MARGIN_SECONDS


def test_without_a_limit_no_request_is_due() -> None:
    assert due_before(0.0) == math.inf


def test_a_single_node_answers_at_the_next_call() -> None:
    state = SaveState(SaveAgreement()).after(BY_FILE, (), 7, 0.0)
    assert state.agreement.answers == (8,)
    assert state.announcement == Announcement(
        8, BY_FILE.reason, "the ranks are asked to save at their step 8"
    )
    assert not state.removes_file


def test_the_file_is_removed_once_its_call_was_made() -> None:
    state = SaveState(SaveAgreement()).after(BY_FILE, (), 7, 0.0)
    later = state.after(SaveRequest(), (), 8, 1.0)
    assert (later.removes_file, later.announcement) == (True, None)
    assert not later.file_gone().after(SaveRequest(), (), 9, 2.0).removes_file


def test_the_time_limit_requests_once() -> None:
    state = SaveState(SaveAgreement(), due=100.0).after(BY_LIMIT, (), 7, 0.0)
    assert (state.due, state.file_call) == (math.inf, 0)


def test_a_training_without_calls_is_announced_once() -> None:
    first = SaveState(SaveAgreement()).after(BY_FILE, (), 0, 0.0)
    assert first.announcement is not None
    assert first.announcement.text == "no rank has called ma_boot.training.should_save() yet"
    assert first.after(BY_FILE, (), 0, 1.0).announcement is None


def test_several_nodes_save_ahead_of_the_fastest_ranks() -> None:
    state = turns(SaveState(SaveAgreement(0, 2)), SaveRequest(), range(0, 100, 10))
    asked = state.after(BY_FILE, (), 100, 10.0)
    assert asked.agreement.asked > 100 + 80
    ready = asked.after(BY_FILE, [message(1, "ready", asked.agreement.asked)], 110, 11.0)
    assert ready.agreement.saves == (asked.agreement.asked,)


def test_a_request_of_a_peer_is_announced_with_its_node() -> None:
    state = SaveState(SaveAgreement(1, 2))
    state = state.after(SaveRequest(), [message(0, "ask", 50)], 7, 0.0)
    state = state.after(SaveRequest(), [message(0, "yes", 50)], 8, 1.0)
    assert state.announcement is not None
    assert state.announcement.reason == "node 0 asks for a checkpoint"


def test_a_silent_node_is_announced() -> None:
    asked = SaveState(SaveAgreement(0, 2)).after(BY_FILE, (), 5, 0.0)
    silent = asked.after(BY_FILE, (), 6, ASK_SECONDS + 1)
    assert silent.announcement is not None
    assert silent.announcement.text == "node 1 has not answered in 10 s: no rank is asked to save"


def test_waiting_ranks_are_announced() -> None:
    state = SaveState(SaveAgreement(1, 2)).after(SaveRequest(), [message(0, "ask", 8)], 7, 0.0)
    waiting = turns(state, SaveRequest(), [8] * 10)
    assert waiting.announcement is not None
    assert waiting.announcement.text == "ranks wait at their step 8 for the decision of node 0"
