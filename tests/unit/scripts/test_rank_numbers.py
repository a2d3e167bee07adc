"""Rules for the numbers of script ranks over all nodes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from ma_boot.node.scripts.rank_numbers import JobShape, NodeRanks, find_wrong_numbers, nodes_without_ranks
from ma_boot.node.scripts.script_rank import Process, RankNumber
from ma_boot.node.scripts.script_state import ScriptRank

SHAPE = JobShape(4, 2, 2)  # two nodes with two ranks each
NOW = 1000.0


def node(
    *ranks: int, size: int = 4, since: float = 0.0, ended: bool = False, lasted: float = 9.0
) -> NodeRanks:
    """Script ranks of a node; they have run long enough to be judged."""
    numbered = tuple((rank, size) for rank in ranks)
    return NodeRanks(() if ended else numbered, frozenset(numbered), since, ended, lasted)


def error_of(*nodes: NodeRanks, shape: JobShape = SHAPE) -> str:
    """The error of a job whose nodes have these ranks, empty for none."""
    return str(find_wrong_numbers(shape, dict(enumerate(nodes)), NOW) or "")


def script_rank(pid: int, number: RankNumber) -> ScriptRank:
    return ScriptRank(Process(pid, "1", 1, True, number), number, None, 0.0)


def test_right_numbers_are_no_error() -> None:
    assert error_of(node(0, 1), node(2, 3)) == ""
    assert error_of(node(0, 1, ended=True), node(2, 3, ended=True)) == ""


def test_nodes_that_train_alone_are_an_error_after_a_while() -> None:
    text = error_of(node(0, 1, size=2))
    assert text.startswith(
        "each node trains a job of its own: the command has started ranks 0-1 with a world size of 2"
    )
    assert error_of(node(0, 1, size=2, since=NOW - 19)) == "", "it may be a step before the training"
    assert error_of(node(0, 1, size=2, ended=True, since=NOW)) == text
    both = NodeRanks((), frozenset({(0, 2), (1, 2), (0, 4), (1, 4)}), 0.0, True, 9.0)
    assert error_of(both) == "", "a step on one node, and the training on all"
    assert error_of(node(0, 1, size=2), shape=JobShape(2, 1, 2)) == "", "the job has one node"
    assert error_of(node(0, size=1), shape=JobShape(2, 1, 2)) == "", "with fewer ranks than devices"
    assert error_of(node(0, size=1)) == "", "a step with one rank before the training"
    assert "has started rank 0 with a world size of 1" in error_of(node(0, size=1, ended=True))
    assert error_of(node(0, size=2, ended=True)) == "", "the other rank may have been missed"


def test_rank_that_runs_twice_is_an_error() -> None:
    assert error_of(node(0, 1), node(0, 1)).startswith(
        "rank 0 runs twice, on nodes 0, 1. Start one rank per device"
    )
    assert error_of(node(1, 1), shape=JobShape(4, 2, 4)).startswith("rank 1 runs twice, on node 0.")
    assert error_of(node(0, 1), node(0, 1, ended=True)) == "", "one after the other"


def test_missing_ranks_are_an_error_once_all_nodes_are_known() -> None:
    assert error_of(node(0, 1)) == error_of(node(0)) == ""
    assert error_of(node(0, 1), NodeRanks()) == "", "the other node may be slower"
    text = "ranks 2-3 of 4 ranks were not started, and the others wait for them: node 1 has started no rank. "
    assert error_of(node(0, 1), NodeRanks(ended=True)).startswith(text)
    shape = JobShape(6, 2, 3)
    text = "rank 5 of 6 ranks were not started, and the others wait for them: node 1 has started ranks 3-4. "
    first = node(0, 1, 2, size=6)
    assert error_of(first, node(3, 4, size=6), shape=shape).startswith(text)
    assert error_of(first, node(3, 4, size=6, since=NOW - 5), shape=shape) == "", (
        "they start one after the other"
    )


def test_single_rank_of_a_running_command_may_be_a_step_before_the_training() -> None:
    """`RANK_ID=0 python prepare.py` has the world size of the job from the environment."""
    assert error_of(node(0), NodeRanks()) == ""
    assert error_of(node(0), node(2)) == ""
    assert "ranks 1, 3 of 4 ranks were not started" in error_of(node(0, ended=True), node(2, ended=True))


def test_node_without_ranks_is_late_after_a_minute() -> None:
    assert nodes_without_ranks({0: node(0, 1, lasted=60.0)}, 3) == [1, 2]
    assert nodes_without_ranks({0: node(0, 1, lasted=60.0), 2: node(4, 5)}, 3) == [1]
    assert nodes_without_ranks({0: node(0, 1, lasted=59.0)}, 3) == []
    assert nodes_without_ranks({0: NodeRanks(lasted=90.0)}, 3) == []


def test_ranks_that_end_at_once_are_not_missing() -> None:
    """A look may have missed the others."""
    assert error_of(node(0, ended=True, lasted=0.1), node(2, 3, ended=True)) == ""
    assert error_of(node(0, 1, ended=True, lasted=0.1), NodeRanks(ended=True)) == ""


def test_numbers_are_compared_only_with_local_rank_and_world_size() -> None:
    ranks = [
        script_rank(1, RankNumber(0, 0, 4)),
        script_rank(2, RankNumber(1, None, 2)),
        script_rank(3, RankNumber(2, 0)),
    ]
    state = NodeRanks().with_running(ranks, 5.0)
    assert (state.running, state.started, state.since) == (((0, 4),), frozenset({(0, 4)}), 5.0)


def test_time_without_change_is_measured() -> None:
    first, second = script_rank(1, RankNumber(0, 0, 4)), script_rank(2, RankNumber(1, 1, 4))
    state = NodeRanks().with_running([first], 5.0).with_running([first], 8.0)
    assert (state.since, state.lasted) == (5.0, 3.0)
    state = state.with_running([second, first], 9.0).with_running([], 10.0)
    assert (state.running, state.started, state.since, state.lasted) == (
        (),
        frozenset({(0, 4), (1, 4)}),
        10.0,
        3.0,
    )


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9))),
    st.booleans(),
    st.floats(0, 1e6, allow_nan=False),
)
def test_message_of_a_node_is_decoded_as_it_was(
    ranks: list[tuple[int, int]], ended: bool, lasted: float
) -> None:
    sent = NodeRanks(tuple(ranks), frozenset(ranks), 3.0, ended, lasted)
    assert NodeRanks.decode(sent.fields(), 3.0) == sent


@pytest.mark.parametrize(
    "body",
    [{}, {"running": 7, "started": [], "lasted": 0}, {"running": [[1]], "started": [], "lasted": 0},
     {"running": [], "started": [["x", 1]], "lasted": 0}, {"running": [], "started": [], "lasted": "x"},
     {"running": [], "started": [[float("inf"), 1]], "lasted": 0}],
)  # fmt: skip
def test_malformed_message_of_a_node_is_dropped(body: dict[str, Any]) -> None:
    assert NodeRanks.decode(body, 0.0) is None
