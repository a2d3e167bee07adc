"""MindCluster's reset.json: what each of its states asks of a node."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ma_boot.platform.recognition.mindcluster import Reset, parse_reset

OWN = (2, 3)


def state(**fields: Any) -> Reset:
    reset = parse_reset(json.dumps(fields))
    assert reset is not None
    return reset


def rank(number: int, status: str) -> dict[str, Any]:
    """An entry as ClusterD and the device plugin write it (clusters.md, 6.3)."""
    return {
        "RankId": number, "LogicId": number % 2, "Status": status, "Policy": "restart", "InitialPolicy": "restart",
        "ErrorCode": [2157960198], "ErrorCodeHex": "80A02006",
    }  # fmt: skip


def test_the_first_content_requests_nothing() -> None:
    first = state(status="initializing")
    assert (first.closed_to(OWN), first.ends(OWN, Reset()), first.restarts(Reset())) == ("", "", "")


def test_processes_wait_for_the_collection_and_the_recovery_of_faults() -> None:
    assert "FaultFlushing" in state(FaultFlushing=True).closed_to(OWN)
    assert state(RankList=[rank(3, "fault")]).closed_to(OWN) == "not recovered yet: rank 3"
    assert state(RankList=[rank(0, "fault")]).closed_to(OWN) == ""
    assert (
        state(RankList=[rank(0, "unrecovered"), rank(1, "unrecovered")]).closed_to(OWN).endswith("ranks 0-1")
    )
    assert state(RankList=[rank(0, "recovered"), rank(2, "recovered")]).closed_to(OWN) == ""


def test_a_fault_of_an_own_rank_and_a_graceful_exit_end_the_node() -> None:
    assert state(RankList=[rank(2, "fault")]).ends(OWN, Reset()) == "a fault of rank 2 on this node"
    assert state(RankList=[rank(0, "fault")]).ends(OWN, Reset()) == ""
    graceful = state(GracefulExit=1)
    assert graceful.ends(OWN, Reset()).startswith("GracefulExit")
    assert graceful.ends(OWN, graceful) == "", "it has ended an earlier pod"


def test_a_restart_of_single_processes_is_reported_as_unsupported() -> None:
    ends = state(RankList=[rank(2, "fault")], RestartFaultProcess=True).ends(OWN, Reset())
    assert ends.startswith("a fault of rank 2 on this node, and RestartFaultProcess asks")
    assert ends.endswith("which ma_boot does not do")
    assert state(RankList=[rank(0, "fault")], RestartFaultProcess=True).ends(OWN, Reset()) == ""
    again = state(RankList=[rank(0, "unrecovered")], RestartFaultProcess=True).restarts(Reset())
    assert again == "rank 0 must recover (unrecovered)", "all processes wait for that rank"


def test_recovering_ranks_and_a_new_round_restart_the_processes() -> None:
    assert state(RankList=[rank(0, "unrecovered")]).restarts(Reset()) == "rank 0 must recover (unrecovered)"
    assert state(RetryTime=2).restarts(state(RetryTime=1)) == "RetryTime is 2, was 1"
    assert state(RetryTime=2).restarts(state(RetryTime=2)) == ""


@pytest.mark.parametrize("text", ["", '{"RankList":[', "[]", "null", "[" * 100_000])
def test_incomplete_documents_are_skipped(text: str) -> None:
    assert parse_reset(text) is None


@given(
    st.dictionaries(
        st.sampled_from(["RankList", "RetryTime", "FaultFlushing", "GracefulExit", "RestartFaultProcess"]),
        st.recursive(
            st.none() | st.booleans() | st.integers(max_value=2**70) | st.text(max_size=3),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["RankId", "Status"]), inner)
            ),
        ),
    )
)
def test_values_of_wrong_types_are_ignored(fields: dict[str, Any]) -> None:
    reset = state(**fields)
    assert reset.closed_to(OWN) == "" or reset.flushing
    assert reset.restarts(Reset(round=2**70)) == ""
