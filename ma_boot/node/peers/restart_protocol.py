"""Restart protocol: a node's knowledge of its peers and of the end of an attempt, one fact per node. Pure.

Messages and the clock go in; this node's messages, and the verdict that it acts on, come out. The model test
runs this code under schedules of lost, late, repeated and reordered messages, and of nodes that end or die.

    any node    failed      all nodes stop their processes
    node k      stopped     all its processes are dead, and its checkpoints are published
    node 0      go          all nodes have stopped, or the deadline has passed: one decision for all
    any node    over        it takes part no more; node 0 passes that on, and reports lost nodes likewise
    any node    left        the last message of a node, with its exit code
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ma_boot.node.peers.job_restart import (
    AttemptEnd,
    FailureSignature,
    RestartPolicy,
    Verdict,
    decide,
    read_end,
    read_verdict,
    signature_of,
)
from ma_boot.report.cause import Cause
from ma_boot.report.result import ExitStatus
from ma_boot.wording import Message

# Seconds after an attempt; max. wait of node 0 until all nodes have stopped their processes.
AGREE_SECONDS = 120.0
# Likewise of the other nodes for node 0's decision: later than its own deadline, so that it can still arrive.
DECIDED_SECONDS = 150.0

ENDED, LOST, REPLACED, MUTE = "ended", "lost", "replaced", "mute"


class Over(NamedTuple):
    """End of a node's part in the job.

    It has `ended` (with exit code `code`, as known by then), was `lost` (it does not answer), was `replaced`
    (another process of the same node has connected), or is `mute` (it runs, but without its channel).
    """

    how: str
    code: int = 1

    @property
    def is_failure(self) -> bool:
        """True if the job has failed by it."""
        return self.code != 0 if self.how == ENDED else self.how != MUTE

    @property
    def is_success(self) -> bool:
        """True if it has ended with success."""
        return self.how == ENDED and self.code == 0

    def why(self, node: int) -> str:
        """Returns the reason in words."""
        if self.how == LOST:
            return Message.of("node {} does not answer any more", node)
        if self.how == REPLACED:
            return Message.of("node {} has started again", node)
        if self.how == MUTE:
            return Message.of("node {} has closed its channel", node)
        if not self.code:
            return Message.of("node {} has ended", node)
        return Message.of("node {} has ended with exit code {}", node, self.code)


class Agreement(NamedTuple):
    """Knowledge of node `node` of `nodes` about its peers in an attempt; each method returns the next value.

    `facts` has one fact for each node that does not run: the end of its processes of this attempt, or the end
    of its part in the job, which is final. `boots` are the identities of the peers' processes: once the run
    has `begun`, another identity is another process. `is_joint` is true if a failure anywhere ends the
    attempt on all nodes. `stopped_at` is the monotonic time at which this node's processes were dead, None
    while they run. `earlier` are the failures of the attempts before, which only node 0 knows.
    """

    node: int = 0
    nodes: int = 1
    policy: RestartPolicy = RestartPolicy()
    is_joint: bool = False
    begun: bool = False
    attempt: int = 1
    stopped_at: float | None = None
    facts: Mapping[int, AttemptEnd | Over] = {}
    boots: Mapping[int, str] = {}
    earlier: tuple[FailureSignature, ...] = ()
    verdict: Verdict | None = None

    def begin(self, policy: RestartPolicy, is_joint: bool) -> Agreement:
        """After the beginning of the run: from now on a node that starts again is another one."""
        return self._replace(policy=policy, is_joint=is_joint, begun=True)

    def with_message(self, node: int, kind: str, body: Mapping[str, object]) -> Agreement:
        """After a message of a peer; one of another attempt, or out of its place, changes nothing."""
        if not 0 <= node < self.nodes or node == self.node:
            return self
        if kind == "here":
            return self._with_boot(node, body.get("boot"))
        if kind in ("over", "left"):
            about, over = (node, read_left(body)) if kind == "left" else read_over(body)
            if over is None or (node and about != node) or not 0 <= about < self.nodes:
                return self
            # Node 0 has given this one up: for this node, that is the loss of node 0.
            return self.with_fact(node if about == self.node else about, over)
        if kind == "stopped" and not self.node:
            end = read_end(body)
            if end is not None and end.attempt == self.attempt:
                return self.with_fact(node, end)
        elif kind == "go" and not node and self.verdict is None:
            verdict = read_verdict(body)
            if verdict is not None and verdict.attempt == self.attempt:
                return self._replace(verdict=verdict)
        return self

    def with_lost(self, node: int) -> Agreement:
        """After the loss of the connection to a node for longer than a tolerated network outage."""
        return self.with_fact(node, Over(LOST))

    def stopped(self, end: AttemptEnd, now: float) -> Agreement:
        """After the death of all processes of this node."""
        return self._replace(stopped_at=now, facts={**self.facts, self.node: end})

    def decided(self, cause: Cause | None, now: float) -> Agreement:
        """With a verdict if one is possible by now, for a node that has stopped.

        `cause` is the root cause of the attempt as known here. A node that takes part no more ends the job,
        also after the go: the attempt that node 0 has allowed cannot run.
        """
        if self.stopped_at is None or (self.verdict is not None and not self.verdict.again):
            return self
        if self.why_over:
            return self.ended(self.why_over)
        if self.verdict is not None:
            return self
        missing, seconds = self._missing, now - self.stopped_at
        if seconds > (DECIDED_SECONDS if self.node else AGREE_SECONDS) and missing:
            return self.ended(f"node {min(missing)} has not answered in {seconds:.0f} s")
        if missing:
            return self
        verdict = decide(self.attempt, self.ends, self.policy, cause=cause, earlier=self.earlier)
        return self._replace(verdict=verdict, earlier=(*self.earlier, signature_of(self.ends, cause)))

    def ended(self, why: str) -> Agreement:
        """With a verdict of its own, without an agreement: this node does not start again."""
        return self._replace(verdict=Verdict(self.attempt, False, why))

    def again(self) -> Agreement:
        """At the beginning of the next attempt, on all nodes."""
        return self._replace(attempt=self.attempt + 1, stopped_at=None, facts=self.over, verdict=None)

    @property
    def ends(self) -> dict[int, AttemptEnd]:
        """The ends of the nodes that take part in the decision."""
        return {node: fact for node, fact in self.facts.items() if isinstance(fact, AttemptEnd)}

    @property
    def over(self) -> dict[int, Over]:
        """The nodes that take part no more."""
        return {node: fact for node, fact in self.facts.items() if isinstance(fact, Over)}

    @property
    def lost(self) -> frozenset[int]:
        """The nodes whose processes have vanished without an exit code."""
        return frozenset(node for node, over in self.over.items() if over.how in (LOST, REPLACED))

    @property
    def failed_over(self) -> tuple[int, Over] | None:
        """The node by whose end the job has failed: the first one known here; None if there is none."""
        return next(((node, over) for node, over in self.over.items() if over.is_failure), None)

    @property
    def failure(self) -> ExitStatus | None:
        """The end of a node by which the job has failed, as a failure; None if there is none."""
        if self.failed_over is None:
            return None
        node, over = self.failed_over
        return ExitStatus(over.code or 1, "training", over.why(node))

    @property
    def why_over(self) -> str:
        """The reason that no further attempt of all nodes can run; empty as long as all nodes take part.

        A node that has ended with success takes part in no decision. After the go it may have finished the
        next attempt before this node has begun it: that is no reason.
        """
        awaits_decision = self.stopped_at is not None and self.verdict is None
        reasons = [(node, over) for node, over in self.over.items() if awaits_decision or not over.is_success]
        first = self.failed_over or next(iter(reasons), None)
        return first[1].why(first[0]) if first is not None else ""

    @property
    def why_stop(self) -> str:
        """The reason that the processes of this node have to stop; empty if they may run."""
        failed = self.failed_over
        if failed is not None and (self.is_joint or failed[1].how != ENDED):
            return failed[1].why(failed[0])
        if not self.is_joint:
            return ""
        if self.verdict is not None:
            return self.verdict.why
        return f"node {min(self.ends)} has stopped its processes" if self.ends else ""

    @property
    def message(self) -> tuple[str, dict[str, Any]] | None:
        """Kind and body of this node's message: its stop or, as node 0, its decision; None before that."""
        if self.node:
            own = self.ends.get(self.node)
            return ("stopped", own._asdict()) if own is not None else None
        return ("go", self.verdict._asdict()) if self.verdict is not None else None

    @property
    def _missing(self) -> frozenset[int]:
        """The nodes that this one still waits for."""
        return frozenset((0,)) if self.node else frozenset(range(self.nodes)) - self.ends.keys()

    def with_fact(self, node: int, fact: AttemptEnd | Over) -> Agreement:
        """With a fact on a node: its first end of an attempt is kept; the end of its part is final."""
        known = self.facts.get(node)
        if isinstance(known, Over) or (known is not None and not isinstance(fact, Over)):
            return self
        return self._replace(facts={**self.facts, node: fact})

    def _with_boot(self, node: int, boot: object) -> Agreement:
        """After the first message of a peer's process; before the run the newest process is the peer."""
        known = self.boots.get(node)
        if not isinstance(boot, str) or boot == known:
            return self
        if self.begun and known is not None:
            return self.with_fact(node, Over(REPLACED))
        facts = {other: fact for other, fact in self.facts.items() if other != node}
        return self._replace(boots={**self.boots, node: boot}, facts=facts)


def over_body(node: int, over: Over) -> dict[str, Any]:
    """Returns the body of the message that a node takes part no more."""
    return {"node": node, **over._asdict()}


def read_over(body: Mapping[str, object]) -> tuple[int, Over | None]:
    """Returns a node and the end of its part; None for the latter if the message is invalid."""
    node, how, code = body.get("node"), body.get("how"), body.get("code")
    if not isinstance(node, int) or how not in (ENDED, LOST, REPLACED, MUTE) or not isinstance(code, int):
        return -1, None
    return node, Over(str(how), code)


def read_left(body: Mapping[str, object]) -> Over:
    """Returns the end of a node by its last message: without a valid exit code it is no success."""
    code = body.get("code")
    return Over(ENDED, code if isinstance(code, int) else 1)
