"""The steps of a stop, on a clock that the test sets."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from signal import SIGINT, SIGKILL, SIGTERM

import pytest

from ma_boot.node.supervisor.stop_ladder import StopLadder
from tests.functional.supervisor.conftest import EventLog, journal as journal

LEFT = ["rank 0", "rank 1"]


@dataclass
class Stopping:
    """A ladder with a grace period of 15 s; the clock starts at 100 s."""

    journal: EventLog
    now: float = 100.0
    stops: list[int] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ladder = self.with_hurry(SIGKILL)

    def with_hurry(self, signum: int) -> StopLadder:
        return StopLadder(15.0, signum, self.stops, self.sent.append, self.journal, lambda: self.now)

    def after(self, seconds: float, left: list[str]) -> list[int]:
        """Returns the signals sent until then."""
        self.now += seconds
        self.ladder.escalate(left)
        return self.sent


@pytest.fixture
def stopping(journal: EventLog) -> Stopping:
    return Stopping(journal)


def test_sigterm_then_sigkill_then_survivors(stopping: Stopping) -> None:
    ladder = stopping.ladder
    assert (ladder.begun, ladder.patience()) == (False, math.inf)
    ladder.begin("rank 2 ended with exit code 1", LEFT)
    assert (ladder.begun, ladder.patience()) == (True, 15.0)
    assert stopping.after(14.9, LEFT) == [SIGTERM]
    assert stopping.after(0.1, ["rank 1"]) == [SIGTERM, SIGKILL]
    assert ladder.patience() == 10.0
    stopping.after(9, ["rank 1"])
    assert ladder.survivors == []
    assert stopping.after(1, ["rank 1"]) == [SIGTERM, SIGKILL]
    assert ladder.survivors == ["rank 1"]
    assert stopping.journal.screen().splitlines() == [
        "[ma_boot] rank 2 ended with exit code 1: stopping rank 0, rank 1",
        "[ma_boot] warning: SIGKILL did not end rank 1",
    ]


@pytest.mark.parametrize(("stop", "explained"), [(SIGINT, True), (SIGTERM, False)])
def test_first_ctrl_c_explains_a_second_one(stopping: Stopping, stop: int, explained: bool) -> None:
    stopping.stops.append(stop)
    stopping.ladder.begin("a reason", LEFT)
    (line,) = stopping.journal.screen().splitlines()
    assert line.startswith("[ma_boot] a reason: stopping rank 0, rank 1")
    assert ("(Ctrl-C again: all processes are killed at once" in line) is explained


def test_no_signal_is_sent_after_the_last_end(stopping: Stopping) -> None:
    stopping.ladder.begin("SIGTERM received", LEFT)
    assert stopping.after(20, []) == [SIGTERM]


def test_stop_without_running_processes_is_not_logged(stopping: Stopping) -> None:
    stopping.ladder.begin("rank 0 could not be started", [])
    assert stopping.journal.screen() == ""


@pytest.mark.parametrize("before", [[], [SIGTERM]], ids=["after a failure", "after a stop signal"])
def test_a_second_stop_signal_ends_the_grace_period(stopping: Stopping, before: list[int]) -> None:
    stopping.stops += before
    stopping.ladder.begin("a reason", LEFT)
    if not before:  # the first signal may come just after the failure: the platform sends it to all nodes
        stopping.stops.append(SIGTERM)
    assert stopping.after(1, LEFT) == [SIGTERM]
    stopping.stops.append(SIGTERM)
    assert stopping.after(1, LEFT) == [SIGTERM, SIGKILL]
    stopping.stops.append(SIGTERM)
    assert stopping.after(1, LEFT) == [SIGTERM, SIGKILL], "nothing is stronger than SIGKILL"


def test_the_deadline_stays_if_the_second_signal_is_not_sigkill(stopping: Stopping) -> None:
    ladder = stopping.ladder = stopping.with_hurry(SIGTERM)
    ladder.begin("a reason", LEFT)
    stopping.stops += [SIGTERM, SIGTERM]
    assert stopping.after(1, LEFT) == [SIGTERM, SIGTERM]
    assert ladder.patience() == 14.0
    assert stopping.after(14, LEFT) == [SIGTERM, SIGTERM, SIGKILL]


class TestLeftBehind:
    """The same steps again for processes left behind."""

    def test_it_has_the_whole_grace_period_after_a_normal_end(self, stopping: Stopping) -> None:
        stopping.ladder.begin_again()
        assert (stopping.sent, stopping.ladder.patience()) == ([SIGTERM], 15.0)

    def test_it_shares_the_deadline_of_a_stop(self, stopping: Stopping) -> None:
        stopping.ladder.begin("a reason", LEFT)
        stopping.after(5, LEFT)
        stopping.ladder.begin_again()
        assert stopping.ladder.patience() == 10.0

    def test_the_first_stop_signal_does_not_end_its_grace_period(self, stopping: Stopping) -> None:
        stopping.ladder.begin_again()
        stopping.stops.append(SIGTERM)
        assert stopping.after(1, LEFT) == [SIGTERM]
        stopping.stops.append(SIGTERM)
        assert stopping.after(1, LEFT) == [SIGTERM, SIGKILL]

    def test_it_gets_a_sigkill_of_its_own(self, stopping: Stopping) -> None:
        stopping.ladder.begin("a reason", LEFT)
        assert stopping.after(15, LEFT) == [SIGTERM, SIGKILL]
        stopping.ladder.begin_again()
        assert stopping.after(10, ["children of rank 0"])[2:] == [SIGTERM, SIGKILL]
        assert stopping.ladder.survivors == []

    def test_it_has_at_least_a_second(self, stopping: Stopping) -> None:
        stopping.ladder.begin("a reason", LEFT)
        stopping.now += 15
        stopping.ladder.begin_again()
        assert stopping.ladder.patience() == 1
        assert stopping.after(1, ["children of rank 0"])[2:] == [SIGKILL]
