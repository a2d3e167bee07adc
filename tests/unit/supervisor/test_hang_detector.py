"""What counts as activity."""

from __future__ import annotations

import os
import time

import pytest

from ma_boot.supervisor.hang_detector import LastActivity, session_cpu_seconds

BEFORE = LastActivity(when=100.0, cpu=7.0)


@pytest.mark.parametrize(
    ("cpu", "heard", "when"),
    [
        (7.0, 90.0, 100.0),
        (7.05, 90.0, 100.0),
        (7.2, 90.0, 110.0),
        (7.0, 105.0, 105.0),
        (7.2, 105.0, 110.0),
    ],
    ids=["nothing", "timers", "computes", "prints", "both"],
)
def test_activity_is_output_or_more_cpu_time_than_timers_use(cpu: float, heard: float, when: float) -> None:
    assert BEFORE.updated(110.0, cpu, heard).when == when


def test_the_cpu_time_of_a_session_grows() -> None:
    session = os.getsid(0)
    before = session_cpu_seconds()[session]
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    assert session_cpu_seconds()[session] >= before + 0.05
