"""The agreement of a restart under thousands of schedules, and that the model sees a protocol that is broken."""

from __future__ import annotations

from typing import Any, Collection, Mapping, Optional, Type

import pytest

from ma_boot.node.job_restart import Verdict, decide, failure_of, read_end, read_verdict
from ma_boot.node.restart_protocol import Agreement
from ma_boot.reporting import Cause
from tests.unit.launch.restart_model import QUIET, SimulatedJob

SCHEDULES, IN_ONE = 10_000, 500


@pytest.mark.parametrize("first", range(0, SCHEDULES, IN_ONE))
def test_no_schedule_breaks_a_promise(first: int) -> None:
    """Never two attempts at once, one decision of node 0, no wait beyond its deadline, the budget is kept."""
    for seed in range(first, first + IN_ONE):
        assert SimulatedJob(seed, None).run().broken == [], f"seed {seed}"


def test_a_job_of_which_nothing_else_fails_restarts_as_often_as_its_budget_allows() -> None:
    for seed in range(500):
        job = SimulatedJob(seed, QUIET).run()
        assert job.broken == [], f"seed {seed}"
        assert {attempt: len(nodes) for attempt, nodes in job.begun.items()} == dict.fromkeys(
            range(1, job.budget + 2), job.size
        ), f"seed {seed}"


class TakesOldEnds(Agreement):
    """An end of an earlier attempt counts for this one."""

    def with_message(self, node: int, kind: str, body: Mapping[str, object]) -> Agreement:
        end = read_end(body) if kind == "stopped" and not self.node else None
        return self._replace(ends={**self.ends, node: end}) if end else super().with_message(node, kind, body)


class KeepsEnds(Agreement):
    """The next attempt begins with the ends of this one."""

    def again(self) -> Agreement:
        return super().again()._replace(ends=self.ends)


class DecidesEarly(Agreement):
    """Node 0 does not wait for a node that is lost."""

    def decided(self, cause: Optional[Cause], lost: Collection[int], now: float) -> Agreement:
        if self.node or self.stopped_at is None or self.verdict is not None:
            return super().decided(cause, lost, now)
        if set(range(self.nodes)) - self.ends.keys() - set(lost) - self.left:
            return super().decided(cause, lost, now)
        verdict = decide(self.attempt, self.ends, self.policy, cause, self.earlier)
        return self._replace(verdict=verdict, earlier=(*self.earlier, failure_of(self.ends, cause)))


class WaitsForever(Agreement):
    """There is no deadline."""

    def _given_up(self, lost: Collection[int], seconds: float) -> str:
        return super()._given_up(lost, min(seconds, 60.0))


class ForgetsTheBudget(Agreement):
    """What was used of the budget is forgotten."""

    def again(self) -> Agreement:
        return super().again()._replace(earlier=())


class TakesAnyVerdict(Agreement):
    """A verdict on an earlier attempt is followed, too."""

    def with_message(self, node: int, kind: str, body: Mapping[str, object]) -> Agreement:
        verdict = read_verdict(body) if kind == "go" and self.node else None
        if verdict is None:
            return super().with_message(node, kind, body)
        return self._replace(verdict=verdict._replace(attempt=self.attempt))


class GoesOnAlone(Agreement):
    """A node that gets no verdict starts again nevertheless."""

    def ended(self, why: str) -> Agreement:
        return self._replace(verdict=Verdict(self.attempt, bool(self.node), why))


class DecidesTwice(Agreement):
    """Node 0 takes back what it has decided when a late end comes."""

    def with_message(self, node: int, kind: str, body: Mapping[str, object]) -> Agreement:
        end: Any = read_end(body) if kind == "stopped" and not self.node else None
        if end is not None and end.attempt == self.attempt - 1 and self.stopped_at is None:
            return self._replace(attempt=self.attempt - 1, earlier=self.earlier[:-1])
        return super().with_message(node, kind, body)


@pytest.mark.parametrize(
    "kind",
    [TakesOldEnds, KeepsEnds, DecidesEarly, WaitsForever, ForgetsTheBudget, TakesAnyVerdict, GoesOnAlone,
     DecidesTwice],
)  # fmt: skip
def test_the_model_sees_what_is_broken(kind: Type[Agreement]) -> None:
    assert any(SimulatedJob(seed, None, kind).run().broken for seed in range(3000))
