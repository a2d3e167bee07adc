"""Restart protocol under thousands of schedules; the model also detects broken variants of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ma_boot.node.peers.job_restart import (
    AttemptEnd,
    RestartPolicy,
    Verdict,
    decide,
    read_end,
    read_verdict,
    signature_of,
)
from ma_boot.node.peers.restart_protocol import (
    ENDED,
    LOST,
    MUTE,
    REPLACED,
    Agreement,
    Over,
    over_body,
    read_over,
)
from ma_boot.report.cause import Cause
from tests.unit.peers.restart_model import QUIET, SimulatedJob

SCHEDULES, IN_ONE = 10_000, 500


@pytest.mark.parametrize("first", range(0, SCHEDULES, IN_ONE))
def test_promises_hold_under_all_schedules(first: int) -> None:
    """Never two attempts at once, one decision of node 0, no wait beyond its deadline, the budget is kept.

    No node begins an attempt after it has received that another one takes part no more. If messages arrive
    at once, no node runs 10 s after the end or death of another one.
    """
    for seed in range(first, first + IN_ONE):
        assert SimulatedJob(seed, None).run().broken == [], f"seed {seed}"


def test_job_without_other_faults_uses_its_whole_budget() -> None:
    for seed in range(500):
        job = SimulatedJob(seed, QUIET).run()
        assert job.broken == [], f"seed {seed}"
        assert {attempt: len(nodes) for attempt, nodes in job.begun.items()} == dict.fromkeys(
            range(1, job.budget + 2), job.size
        ), f"seed {seed}"


@pytest.mark.invariant("A node that dies or leaves ends the attempt on all nodes, and is never a success")
def test_end_or_death_of_a_node_ends_the_attempt_of_all_within_10_s() -> None:
    """While all run, after it has stopped its processes, or after the go."""
    for faults in (QUIET._replace(killed=0.5), QUIET._replace(left=0.5)):
        for seed in range(500):
            assert SimulatedJob(seed, faults).run().broken == [], f"seed {seed}"


ALL = Agreement(0, 3).begin(RestartPolicy(3), True)
STOPPED = AttemptEnd(1)._asdict()


def stopped(agreement: Agreement) -> Agreement:
    """Node 0 after the ends of the processes of all nodes."""
    for node in (1, 2):
        agreement = agreement.with_message(node, "stopped", STOPPED)
    return agreement.stopped(AttemptEnd(1), 0.0)


@pytest.mark.parametrize(
    ("over", "why"),
    [
        (Over(ENDED, 143), "node 2 has ended with exit code 143"),
        (Over(ENDED, 0), "node 2 has ended"),
        (Over(LOST), "node 2 does not answer any more"),
        (Over(REPLACED), "node 2 has started again"),
        (Over(MUTE, 0), "node 2 has closed its channel"),
    ],
)
def test_no_attempt_follows_without_a_node_that_takes_part_no_more(over: Over, why: str) -> None:
    """Even if it has stopped its processes: before the decision, and after the go."""
    message = over_body(2, over)
    before = stopped(ALL).with_message(2, "over", message).decided(None, 1.0)
    decided = stopped(ALL).decided(None, 1.0)
    assert decided.verdict is not None
    assert decided.verdict.again
    node_1 = Agreement(1, 3).begin(RestartPolicy(3), True).stopped(AttemptEnd(1), 0.0)
    after = node_1.with_message(0, "go", decided.verdict._asdict()).with_message(0, "over", message)
    for agreement in (before, after.decided(None, 1.0)):
        assert agreement.verdict is not None
        has_run_ahead = agreement is not before and over == Over(
            ENDED, 0
        )  # it has ended the next attempt well
        assert agreement.verdict.again == has_run_ahead
        assert agreement.verdict.why == (decided.verdict.why if has_run_ahead else why)
    later = decided.again().with_message(2, "over", message)
    assert later.why_stop == (why if over.is_failure else ""), "the next attempt has begun"
    assert later.with_message(2, "stopped", AttemptEnd(2)._asdict()).over == {2: over}, "that is final"


def test_a_node_may_report_its_own_end_only_and_node_0_that_of_any() -> None:
    lie = over_body(1, Over(LOST))
    assert ALL.with_message(2, "over", lie) == ALL
    node_2 = Agreement(2, 3).begin(RestartPolicy(), False)
    assert node_2.with_message(0, "over", lie).lost == {1}
    assert node_2.with_message(0, "over", over_body(2, Over(LOST))).lost == {0}, "it has given this node up"
    assert node_2.with_message(0, "over", over_body(7, Over(LOST))) == node_2


@pytest.mark.parametrize(
    "body", [{}, {"node": 1}, {"node": 1, "how": "x", "code": 1}, {"node": "1", "how": LOST}]
)
def test_invalid_reports_of_an_end_are_dropped(body: Mapping[str, Any]) -> None:
    assert read_over(body)[1] is None
    assert ALL.with_message(1, "over", body) == ALL


def test_without_restarts_only_a_lost_node_stops_the_others() -> None:
    alone = Agreement(0, 2).begin(RestartPolicy(), False)
    ended = alone.with_message(1, "over", over_body(1, Over(ENDED, 1)))
    assert (ended.why_stop, alone.with_lost(1).why_stop) == ("", "node 1 does not answer any more")
    assert ended.with_lost(1) == ended, "its exit code arrived before its connection was closed"


def test_restarted_process_of_a_node_counts_as_lost_once_the_run_has_begun() -> None:
    before = Agreement(0, 2).with_message(1, "here", {"boot": "a"}).with_message(1, "left", {"code": 69})
    again = before.with_message(1, "here", {"boot": "b"})
    assert again.over == {}, "the platform has started it again in time"
    begun = again.begin(RestartPolicy(), False)
    assert begun.with_message(1, "here", {"boot": "b"}).over == {}
    assert begun.with_message(1, "here", {"boot": "c"}).lost == {1}


class TakesOldEnds(Agreement):
    """Broken: an end of an earlier attempt is taken for one of this attempt."""

    def with_message(self, node: int, kind: str, body: Mapping[str, object]) -> Agreement:
        end = read_end(body) if kind == "stopped" and not self.node else None
        return self.with_fact(node, end) if end else super().with_message(node, kind, body)


class KeepsEnds(Agreement):
    """Broken: the next attempt begins with the ends of this one."""

    def again(self) -> Agreement:
        return super().again()._replace(facts=self.facts)


class DecidesEarly(Agreement):
    """Broken: node 0 does not wait for a lost node."""

    def decided(self, cause: Cause | None, now: float) -> Agreement:
        if self.node or self.stopped_at is None or self.verdict is not None:
            return super().decided(cause, now)
        if set(range(self.nodes)) - self.ends.keys() - self.lost:
            return super().decided(cause, now)
        verdict = decide(self.attempt, self.ends, self.policy, cause, self.earlier)
        return self._replace(verdict=verdict, earlier=(*self.earlier, signature_of(self.ends, cause)))


class WaitsForever(Agreement):
    """Broken: there is no deadline."""

    def decided(self, cause: Cause | None, now: float) -> Agreement:
        return super().decided(cause, min(now, (self.stopped_at or 0.0) + 60.0))


class ForgetsWhoHasStopped(Agreement):
    """Broken: the end of a node that has stopped its processes is ignored."""

    def with_fact(self, node: int, fact: AttemptEnd | Over) -> Agreement:
        known = self.facts.get(node)
        return self if isinstance(known, AttemptEnd) else super().with_fact(node, fact)


class FollowsTheGo(Agreement):
    """Broken: after a go all other messages are ignored."""

    def decided(self, cause: Cause | None, now: float) -> Agreement:
        return self if self.verdict is not None else super().decided(cause, now)


class RunsOn(Agreement):
    """Broken: the end of a peer does not stop the processes of this node."""

    @property
    def why_stop(self) -> str:
        return self._replace(facts=self.ends).why_stop if self.over else super().why_stop


class ForgetsTheBudget(Agreement):
    """Broken: used restarts are forgotten."""

    def again(self) -> Agreement:
        return super().again()._replace(earlier=())


class TakesAnyVerdict(Agreement):
    """Broken: a verdict on an earlier attempt is followed."""

    def with_message(self, node: int, kind: str, body: Mapping[str, object]) -> Agreement:
        verdict = read_verdict(body) if kind == "go" and self.node else None
        if verdict is None:
            return super().with_message(node, kind, body)
        return self._replace(verdict=verdict._replace(attempt=self.attempt))


class GoesOnAlone(Agreement):
    """Broken: a node without a verdict starts again."""

    def ended(self, why: str) -> Agreement:
        return self._replace(verdict=Verdict(self.attempt, bool(self.node), why))


class DecidesTwice(Agreement):
    """Broken: node 0 changes its decision after a late end."""

    def with_message(self, node: int, kind: str, body: Mapping[str, object]) -> Agreement:
        end: Any = read_end(body) if kind == "stopped" and not self.node else None
        if end is not None and end.attempt == self.attempt - 1 and self.stopped_at is None:
            return self._replace(attempt=self.attempt - 1, earlier=self.earlier[:-1])
        return super().with_message(node, kind, body)


@pytest.mark.parametrize(
    "kind",
    [TakesOldEnds, KeepsEnds, DecidesEarly, WaitsForever, ForgetsWhoHasStopped, FollowsTheGo, RunsOn,
     ForgetsTheBudget, TakesAnyVerdict, GoesOnAlone, DecidesTwice],
)  # fmt: skip
def test_model_detects_each_broken_variant(kind: type[Agreement]) -> None:
    assert any(SimulatedJob(seed, None, kind).run().broken for seed in range(3000))
