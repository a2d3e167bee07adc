"""What a node knows of the end of an attempt, as a value: who has stopped, who has gone, what node 0 decided.

Pure: messages and the clock go in; what this node tells, and the verdict that it acts on, come out. The model
test runs this code under schedules of lost, late, repeated and reordered messages.

    any node    failed      all stop their processes
    node k      stopped     all its processes are dead, and what can become whole is published
    node 0      go          all have stopped, or the deadline has passed: decided once, for all
    any node    left        it ends, and takes part no more
"""

from __future__ import annotations

from typing import Any, Collection, Dict, FrozenSet, Mapping, NamedTuple, Optional, Tuple

from ma_boot.node.job_restart import (
    AttemptEnd,
    Failed,
    RestartPolicy,
    Verdict,
    decide,
    failure_of,
    read_end,
    read_verdict,
)
from ma_boot.reporting import Cause

AGREE_SECONDS = 120.0  # after an attempt, until all nodes have stopped theirs
DECIDED_SECONDS = 150.0  # and until node 0 has decided
GONE_SECONDS = 10.0  # without a connection, until a node counts as gone


class Agreement(NamedTuple):
    """What node `node` of `nodes` knows of the end of this `attempt`; each method returns the next value.

    `stopped_at` is when its own processes were dead, None as long as they run. `ends` are what nodes have
    said when theirs were, `left` the nodes that have ended. `earlier` are the failures of the attempts
    before, which only node 0 knows: with `policy` they are what its decision needs.
    """

    node: int = 0
    nodes: int = 1
    policy: RestartPolicy = RestartPolicy()
    attempt: int = 1
    stopped_at: Optional[float] = None
    ends: Mapping[int, AttemptEnd] = {}
    left: FrozenSet[int] = frozenset()
    earlier: Tuple[Failed, ...] = ()
    verdict: Optional[Verdict] = None

    def with_message(self, node: int, kind: str, body: Mapping[str, object]) -> Agreement:
        """After a message of another node; one of another attempt, or not in its place, changes nothing."""
        if not 0 <= node < self.nodes:
            return self
        if kind == "left":
            return self._replace(left=self.left | {node})
        if kind == "stopped" and not self.node:
            end = read_end(body)
            if end is not None and end.attempt == self.attempt:
                return self._replace(ends={node: end, **self.ends})
        elif kind == "go" and not node and self.node and self.verdict is None:
            verdict = read_verdict(body)
            if verdict is not None and verdict.attempt == self.attempt:
                return self._replace(verdict=verdict)
        return self

    def stopped(self, end: AttemptEnd, now: float) -> Agreement:
        """After the death of all processes of this node."""
        return self._replace(stopped_at=now, ends={**self.ends, self.node: end})

    def decided(self, cause: Optional[Cause], lost: Collection[int], now: float) -> Agreement:
        """With a verdict, if there can be one by now, for a node that has stopped.

        `cause` is the failure of the attempt as it is known here, `lost` are nodes that do not answer.
        """
        if self.verdict is not None or self.stopped_at is None:
            return self
        if self.node or self._missing:
            why = self._given_up(lost, now - self.stopped_at)
            return self.ended(why) if why else self
        verdict = decide(self.attempt, self.ends, self.policy, cause, self.earlier)
        return self._replace(verdict=verdict, earlier=(*self.earlier, failure_of(self.ends, cause)))

    def ended(self, why: str) -> Agreement:
        """Without an agreement: this node does not start again."""
        return self._replace(verdict=Verdict(self.attempt, False, why))

    def again(self) -> Agreement:
        """In the next attempt, which all begin."""
        return self._replace(attempt=self.attempt + 1, stopped_at=None, ends={}, verdict=None)

    @property
    def message(self) -> Optional[Tuple[str, Dict[str, Any]]]:
        """What this node tells now: that it has stopped, or as node 0 what it has decided."""
        if self.node:
            own = self.ends.get(self.node)
            return ("stopped", own._asdict()) if own is not None else None
        return ("go", self.verdict._asdict()) if self.verdict is not None else None

    @property
    def _missing(self) -> FrozenSet[int]:
        """Whom this node waits for."""
        return frozenset((0,)) if self.node else frozenset(range(self.nodes)) - self.ends.keys()

    def _given_up(self, lost: Collection[int], seconds: float) -> str:
        """Why there is no agreement any more; empty as long as there may be one."""
        missing = self._missing
        ended, gone = missing & self.left, missing & set(lost)
        if ended:
            return f"node {min(ended)} has ended"
        if gone and seconds > GONE_SECONDS:
            return f"node {min(gone)} does not answer"
        if seconds > (DECIDED_SECONDS if self.node else AGREE_SECONDS):
            return f"node {min(missing)} has not answered in {seconds:.0f} s"
        return ""
