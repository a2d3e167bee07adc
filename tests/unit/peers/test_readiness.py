"""Readiness of peers by their messages, and messages that are no such ones."""

from __future__ import annotations

import pytest

from ma_boot.node.peers.readiness import Readiness, awaited_body, read_awaited


def test_nodes_are_ready_by_their_messages() -> None:
    known = Readiness().with_message(2, "ready", {}).with_message(1, "ready", {}).with_message(1, "ready", {})
    assert known.ready == {1, 2}


def test_process_that_starts_anew_is_not_ready() -> None:
    known = Readiness().with_message(2, "ready", {}).with_message(2, "here", {"boot": "b"})
    assert known.ready == set()


def test_report_of_a_node_0_that_starts_anew_is_forgotten() -> None:
    known = Readiness().with_message(0, "ready", awaited_body({3, 1}))
    assert known.awaited == frozenset({1, 3})
    assert known.with_message(3, "here", {"boot": "b"}).awaited == frozenset({1, 3})
    assert known.with_message(0, "here", {"boot": "b"}).awaited is None


@pytest.mark.parametrize("awaited", [None, "", {}, [1.5], [True], ["1"], [-1], [[1]], 3])
def test_invalid_report_changes_nothing(awaited: object) -> None:
    assert read_awaited({"awaited": awaited}) is None
    known = Readiness().with_message(0, "ready", {"awaited": []})
    assert known.with_message(0, "ready", {"awaited": awaited}) == known


def test_other_messages_change_nothing() -> None:
    assert Readiness().with_message(1, "failed", {"awaited": []}) == Readiness()
