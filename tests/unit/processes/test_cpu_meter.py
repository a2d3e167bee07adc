"""CPU time of a process and its descendants."""

from __future__ import annotations

import os
import time

from ma_boot.processes.cpu_meter import CpuMeter, ProcessUsage, process_usages


def measured(*states: dict[int, ProcessUsage]) -> list[float]:
    """The seconds of worker 10 in each state; 1 is the reaper."""
    meter = CpuMeter(10)
    return [meter.measure(state, reaper=1) for state in states]


def usage(parent: int, session: int, cpu: float, started: str = "5", of_reaped: float = 0.0) -> ProcessUsage:
    return ProcessUsage(parent, session, started, cpu, of_reaped=of_reaped)


WORKER = {10: usage(1, 10, 2.0)}


def test_descendants_count_in_any_session() -> None:
    tree = {**WORKER, 11: usage(10, 11, 3), 12: usage(11, 12, 4), 13: usage(1, 10, 5), 14: usage(1, 14, 100)}
    assert measured(tree) == [14.0]


def test_an_orphan_in_a_session_of_its_own_still_counts() -> None:
    before, after = {**WORKER, 11: usage(10, 11, 3.0)}, {**WORKER, 11: usage(1, 11, 9.0)}
    assert measured(before, after) == [5.0, 11.0]


def test_another_process_with_the_number_of_a_member_does_not_count() -> None:
    assert measured({**WORKER, 11: usage(10, 11, 3.0)}, {**WORKER, 11: usage(1, 11, 9.0, "6")}) == [5.0, 5.0]


def test_the_sum_does_not_fall_when_an_orphan_is_reaped() -> None:
    before = {**WORKER, 11: usage(1, 10, 30.0)}
    after = {10: usage(1, 10, 3.0)}
    assert measured(before, after) == [32.0, 33.0]


def test_child_reaped_by_its_parent_counts_once() -> None:
    after = {10: usage(1, 10, 5.0, of_reaped=3.0)}
    assert measured({**WORKER, 11: usage(10, 11, 3.0)}, after) == [5.0, 5.0]


def test_time_of_a_child_that_is_never_reaped_still_counts() -> None:
    """Its parent ignores SIGCHLD; the next child has used less so far."""
    before = {**WORKER, 11: usage(10, 11, 3.0)}
    assert measured(before, {10: usage(1, 10, 2.0), 12: usage(10, 12, 1.0)}) == [5.0, 6.0]


def test_adopted_process_counts_from_its_adoption() -> None:
    meter = CpuMeter(10)
    meter.measure(WORKER, reaper=1)
    meter.adopt(11, usage(1, 11, 30.0))
    assert meter.measure({**WORKER, 11: usage(1, 11, 31.0)}, reaper=1) == 3.0


def test_the_cpu_time_of_a_process_grows() -> None:
    meter = CpuMeter(os.getpid())
    before = meter.measure(process_usages(), 0)
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    assert meter.measure(process_usages(), 0) >= before + 0.05
