"""What counts as activity."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Iterator, Optional, cast

import pytest

from ma_boot.launch import WorkerSpec
from ma_boot.observe.hang_detector import HangDetector, LastActivity
from ma_boot.processes import SignalInbox
from ma_boot.reporting import Console, Journal
from ma_boot.supervisor.worker_group import Worker
from tests.functional.observe.conftest import Others

BEFORE = LastActivity(when=100.0, cpu=7.0, looked=100.0, used=7.0)


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    descriptor = os.open(tmp_path / "screen", os.O_CREAT | os.O_WRONLY)
    with Console(descriptor) as console:
        yield console
    os.close(descriptor)


@pytest.mark.parametrize(
    ("cpu", "heard", "when"),
    [
        (7.0, 90.0, 100.0),
        (7.45, 90.0, 100.0),
        (7.55, 90.0, 110.0),
        (7.0, 105.0, 105.0),
        (7.55, 105.0, 110.0),
    ],
    ids=["nothing", "polls", "computes", "prints", "both"],
)
def test_activity_is_output_or_more_cpu_time_than_polling_uses(cpu: float, heard: float, when: float) -> None:
    assert BEFORE.updated(110.0, cpu, heard).when == when


@pytest.mark.parametrize(("now", "cpu"), [(100.1, 7.02), (100.5, 7.04), (101.0, 7.06)])
def test_a_tick_or_two_of_the_kernels_clock_are_no_activity(now: float, cpu: float) -> None:
    """Soon after the last activity they look like a large share: a rank that polls would never hang."""
    assert BEFORE.updated(now, cpu, last_output=90.0).when == BEFORE.when
    assert BEFORE.updated(now, cpu + 0.02, last_output=90.0).when == now


def test_who_works_for_a_moment_only_is_active() -> None:
    """Ten minutes of nothing, then three seconds of work between two looks."""
    quiet = BEFORE.updated(700.0, 7.5, last_output=90.0)
    assert quiet.when == 100.0
    assert quiet.updated(730.0, 8.9, last_output=90.0).when == 100.0, "not more than polling uses"
    assert quiet.updated(730.0, 10.5, last_output=90.0).when == 730.0


def test_what_is_used_little_by_little_since_the_last_output_counts() -> None:
    """An eighth of a core, in looks that are too close to each other to be sure of it."""
    found = BEFORE.updated(105.0, 7.0, last_output=105.0)
    for look in range(1, 41):
        found = found.updated(105.0 + 0.2 * look, 7.0 + 0.025 * look, last_output=105.0)
    assert found.when > 105.0


@pytest.mark.parametrize(
    ("timeout", "interval"), [(160.0, 20.0), (240.0, 30.0), (100_000.0, 30.0), (None, math.inf)]
)
def test_it_looks_eight_times_in_the_timeout_and_at_least_every_half_minute(
    console: Console, timeout: Optional[float], interval: float
) -> None:
    with SignalInbox() as inbox:
        assert HangDetector(timeout, "stop", inbox, Journal(console), Others()).patience() == pytest.approx(
            interval, abs=0.9
        )


class Broken:
    """A worker at which nobody may look."""

    exit = None

    @property
    def spec(self) -> WorkerSpec:
        raise ZeroDivisionError("broken")


@pytest.mark.parametrize("timeout", [None, 600.0])
def test_it_looks_at_no_process_before_it_is_time(
    console: Console, tmp_path: Path, timeout: Optional[float]
) -> None:
    with SignalInbox() as inbox:
        assert (
            HangDetector(timeout, "stop", inbox, Journal(console), Others()).check(
                [cast(Worker, Broken())], False
            )
            == ""
        )
    console.flush()
    assert (tmp_path / "screen").read_text() == ""


def test_after_a_look_the_next_one_is_an_interval_later(console: Console) -> None:
    with SignalInbox() as inbox:
        detector = HangDetector(160.0, "stop", inbox, Journal(console), Others())
        detector._next = 0.0
        assert detector.patience() == 0
        assert detector.check([], False) == ""
        assert detector.patience() == pytest.approx(20.0, abs=2.0)
