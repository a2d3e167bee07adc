"""The moments of faults, the signals that inject them, and the reasons why they were not injected."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from ma_boot.desk.rehearsal.faults import Fault, parse_faults
from ma_boot.desk.rehearsal.injection_rules import (
    GRACE_SECONDS,
    JobState,
    PlannedSignal,
    has_target_rank,
    is_due,
    signals_of,
    why_not_injected,
)

NODES, DEVICES = 2, 2
LOGS = Path("logs")


def fault(text: str) -> Fault:
    return parse_faults([text], NODES, DEVICES)[0]


def at(seconds: float, kind: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "monotonic_ns": int(seconds * 1e9), **more}


def started(nodes: int = NODES) -> JobState:
    """A job whose nodes have started after 1 s and 2 s, and whose ranks have started after 3 s."""
    state = JobState(NODES)
    for node in range(nodes):
        state = state.after_event(at(1 + node, "start", label=f"node {node}", pid=100 + node))
        state = state.after_event_of(node, at(2, "phase-start", phase="job"), LOGS)
        for rank in (2 * node, 2 * node + 1):
            event = at(3, "start", rank=rank, pid=200 + rank, log_file=f"/elsewhere/rank-{rank}.txt")
            state = state.after_event_of(node, event, LOGS)
    return state


def test_state_has_the_nodes_ranks_and_phases_of_the_events() -> None:
    state = started()
    assert (state.nodes[1].pid, state.nodes[1].started, state.nodes[1].phases) == (
        101,
        2.0,
        frozenset({"job"}),
    )
    rank = state.ranks[3]
    assert (rank.pid, rank.node, rank.log, rank.has_ended) == (203, 1, LOGS / "rank-3.txt", False)
    assert state.after_event_of(1, at(4, "exit", rank=3), LOGS).ranks[3].has_ended
    assert state.after_event_of(1, at(4, "metrics"), LOGS) is state


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("kill rank=1", 3.0),
        ("kill rank=1 at=500ms", 3.5),
        ("lost node=0 at=2s", 3.0),
        ("lost node=1", 2.0),
        ("stop at=1s", 3.0),  # after the start of the last node
        ("bad-card node=0 at=4s", 5.0),
    ],
)
def test_fault_is_due_from_its_moment_on(text: str, moment: float) -> None:
    assert not is_due(fault(text), started(), moment - 0.001)
    assert is_due(fault(text), started(), moment)


def test_fault_of_a_line_is_due_when_the_rank_has_printed_it() -> None:
    assert not is_due(fault("kill rank=1 line=3"), started().after_lines(1, 2), 99)
    assert is_due(fault("kill rank=1 line=3"), started().after_lines(1, 3), 0)


def test_fault_of_a_phase_is_due_when_all_its_nodes_have_entered_it() -> None:
    state = started().after_event_of(0, at(4, "phase-start", phase="run"), LOGS)
    assert is_due(fault("lost node=0 phase=run"), state, 0)
    assert not is_due(fault("stop phase=run"), state, 99)
    assert is_due(
        fault("stop phase=run"), state.after_event_of(1, at(5, "phase-start", phase="run"), LOGS), 0
    )


@pytest.mark.parametrize("text", ["kill rank=3", "lost node=1", "stop", "rescheduled"])
def test_fault_is_not_due_before_its_rank_or_nodes_have_started(text: str) -> None:
    assert not is_due(fault(text), started(nodes=1), 99)


def test_bad_card_ends_the_first_running_rank_of_its_node() -> None:
    broken = fault("bad-card node=1")
    assert has_target_rank(broken)
    assert [rank.pid for rank in started().ranks_of(broken)] == [202, 203]


def test_signals_of_each_kind() -> None:
    state = started()
    rank, (first, second) = state.ranks[1], state.nodes.values()
    kill, term = signal.SIGKILL, signal.SIGTERM
    expected = {
        "kill rank=1": [PlannedSignal(kill, rank)],
        "kill rank=1 signal=SEGV": [PlannedSignal(signal.SIGSEGV, rank)],
        "raise rank=1": [PlannedSignal(signal.SIGINT, rank)],
        "hang rank=1": [PlannedSignal(signal.SIGSTOP, rank, with_children=True)],
        "hang rank=1 for=3s": [
            PlannedSignal(signal.SIGSTOP, rank, with_children=True),
            PlannedSignal(signal.SIGCONT, rank, after=3.0, with_children=True),
        ],
        "bad-card node=0": [PlannedSignal(signal.SIGABRT, rank)],
        "lost node=1": [PlannedSignal(kill, second)],
        "rescheduled": [PlannedSignal(kill, first), PlannedSignal(kill, second)],
        "restart signal=TERM": [PlannedSignal(term, first), PlannedSignal(term, second)],
        "stop": [
            PlannedSignal(term, None),
            PlannedSignal(kill, first, after=GRACE_SECONDS),
            PlannedSignal(kill, second, after=GRACE_SECONDS),
        ],
        "stop node=1 grace=2s": [PlannedSignal(term, second), PlannedSignal(kill, second, after=2.0)],
    }
    assert {text: signals_of(fault(text), state, rank) for text in expected} == expected


@pytest.mark.parametrize(
    ("text", "nodes", "reason"),
    [
        ("kill rank=3", 1, "rank 3 was never started"),
        ("kill rank=1 line=9", 2, "rank 1 printed only 0 lines"),
        ("kill rank=1 at=9s", 2, "rank 1 had already ended"),
        ("obs-503", 2, "no such request was made"),
        ("restart times=2", 2, "the job has not failed"),
        ("table-lacks pod=1", 2, "the job had already ended"),
        ("lost node=1", 1, "not every node was started"),
        ("stop phase=outputs", 2, "phase outputs did not begin on every such node"),
        ("stop at=9s", 2, "the job had already ended"),
    ],
)
def test_missed_fault_has_a_reason(text: str, nodes: int, reason: str) -> None:
    assert why_not_injected(fault(text), started(nodes)) == reason
