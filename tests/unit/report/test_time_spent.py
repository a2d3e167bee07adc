"""Useful node time of a job, and the use of the rest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from ma_boot.report.timeline.job_timeline import (
    BootRun,
    Incident,
    JobOutcome,
    NodeTimeline,
    PhaseSpan,
    ProcessSpan,
    Timeline,
)
from ma_boot.report.timeline.time_spent import PARTS, time_spent

Step = tuple[float, str]


def phase(name: str, start: float, end: float) -> PhaseSpan:
    return PhaseSpan(name, start, end, "done", "")


def process(start: float, end: float | None, code: int = 0, stopped: bool = False) -> ProcessSpan:
    return ProcessSpan(f"rank {start}", 0, start, None, end, code, None, stopped, "", "log")


def restored(at: float, step: str) -> Incident:
    return Incident("restored", at, 0, step, "")


def run(start: float, end: float, *processes: ProcessSpan, code: int | None = 0, **more: Any) -> BootRun:
    return BootRun(start, end, (), processes, (), (), code, "", "", "", None)._replace(**more)


def spent(*runs: BootRun) -> dict[str, float]:
    nodes = (NodeTimeline(0, runs),)
    timeline = Timeline("job", 0.0, 0.0, 1, nodes, (), JobOutcome(0, "", ""), 0, 0, "", "", 1)
    return {part: seconds for part, seconds in time_spent(timeline).items() if seconds}


STARTED = (phase("job", 0, 1), phase("rank table", 1, 4), phase("inputs", 1, 6))
AGAIN = phase("checkpoints", 55, 58)
FAILS, WELL = process(10, 50, code=1), process(60, 100)
SAVES: list[Step] = [(20.0, "10"), (40.0, "20")]


@pytest.mark.parametrize(
    ("runs", "parts"),
    [
        ([run(0, 102, process(10, 100), phases=STARTED)],
         {"start": 5, "waiting": 3, "inputs": 2, "counted": 90, "end": 2}),
        ([run(0, 102, FAILS, process(10, 54, code=143, stopped=True), WELL, saves=tuple(SAVES),
              incidents=(restored(9, "–"), restored(58, "20")), phases=(AGAIN,))],
         {"start": 10, "counted": 70, "lost steps": 10, "restarts": 7, "restore": 3, "end": 2}),
        ([run(0, 102, FAILS, WELL, incidents=(restored(58, "–"),))],
         {"start": 10, "counted": 40, "lost steps": 40, "restarts": 10, "end": 2}),
        ([run(0, 52, FAILS, code=1, saves=tuple(SAVES), whole="10")],
         {"start": 10, "counted": 10, "lost steps": 30, "end": 2}),
        ([run(0, 52, FAILS, code=1)], {"start": 10, "lost steps": 40, "end": 2}),
        ([run(0, 90, FAILS, process(60, None), code=None, saves=tuple(SAVES), incidents=(restored(58, "20"),))],
         {"start": 10, "counted": 30, "lost steps": 10, "restarts": 10, "not ended": 30}),
        ([run(0, 60, FAILS, process(10, None), code=None)], {"start": 10, "lost steps": 40, "end": 10}),
        ([run(0, 52, FAILS, code=1, saves=tuple(SAVES)), run(70, 100, process(75, 100), incidents=(restored(72, "20"),))],
         {"start": 15, "counted": 55, "lost steps": 10, "end": 2, "restarts": 18}),
        ([run(0, 5, code=75, phases=(phase("rank table", 1, 5),))], {"start": 1, "waiting": 4}),
    ],
)  # fmt: skip
def test_time_outside_the_final_state_is_not_useful(runs: list[BootRun], parts: dict[str, float]) -> None:
    assert spent(*runs) == pytest.approx(parts)


MOMENTS = st.floats(0, 100)
SPANS = st.tuples(MOMENTS, MOMENTS).map(sorted)


@given(
    st.lists(st.tuples(SPANS, st.integers(0, 1), st.booleans()), max_size=6),
    st.lists(
        st.tuples(SPANS, st.sampled_from(["rank table", "inputs", "checkpoints", "launch"])), max_size=4
    ),
    st.lists(st.tuples(MOMENTS, st.sampled_from(["10", "20"])), max_size=4),
    st.lists(MOMENTS, max_size=3),
)
def test_the_parts_are_the_time_that_was_paid_whatever_the_events_are(
    processes: list[Any], phases: list[Any], saves: list[Step], restores: list[float]
) -> None:
    whole = run(
        0,
        100,
        *(process(span[0], span[1], code, stopped) for span, code, stopped in processes),
        phases=tuple(phase(name, *span) for span, name in phases),
        saves=tuple(saves),
        incidents=tuple(restored(at, "10") for at in restores),
        whole="20",
    )
    parts = spent(whole)
    assert sum(parts.values()) == pytest.approx(100)
    assert all(seconds > 0 for seconds in parts.values())
    assert set(parts) <= set(PARTS)
