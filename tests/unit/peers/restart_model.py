"""Model of a job with several nodes in virtual time, each with the restart protocol; a schedule is a seed.

Messages are lost, late, repeated and reordered, links are parted, nodes are killed, or stopped by the platform
at any time. Broken promises are listed in `broken`.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

from ma_boot.node.observe.channel.peer_link import DIED_SECONDS, OUTAGE_SECONDS
from ma_boot.node.peers.job_restart import AttemptEnd, RestartPolicy
from ma_boot.node.peers.restart_protocol import DECIDED_SECONDS, ENDED, Agreement, Over, over_body
from ma_boot.report.cause import Cause

TICK = 1.0
HORIZON = 1200.0
# Seconds after the end or death of a node, until no other one runs.
NOTICED_SECONDS = 10.0


class Faults(NamedTuple):
    """Rates of faults: shares of messages and nodes, and the longest delays in seconds."""

    lost: float = 0.0
    repeated: float = 0.0
    late: float = 0.1
    killed: float = 0.0
    left: float = 0.0
    parted: float = 0.0
    slow_stop: float = 20.0
    final: float = 0.0
    same: float = 0.0

    @property
    def is_prompt(self) -> bool:
        """True if each message arrives at once."""
        return not self.lost and not self.parted and self.late <= 0.1


QUIET = Faults()


def wild(chance: random.Random) -> Faults:
    """Returns random rates of all kinds of faults."""
    much = chance.choice
    return Faults(
        much([0, 0, 0.1, 0.5]), much([0, 0.3]), much([0.1, 5, 300]), much([0, 0, 0.3]), much([0, 0.2]),
        much([0, 0.3, 0.8]),
        much([1, 20, 100, 200]), much([0, 0.1]), much([0, 0.3]),
    )  # fmt: skip


class SimulatedNode:
    """A node: `state` is one of running, stopping, stopped, leaving, ended and dead.

    `away` is the time at which its process has ended or was killed; `told_over` are the nodes that take part no
    more, as received.
    """

    def __init__(self, agreement: Agreement) -> None:
        self.agreement = agreement
        self.state = "running"
        self.away: float | None = None
        self.told_over: set[int] = set()
        self.passed_on: set[int] = set()
        self.failed: dict[int, Cause] = {}  # by attempt, as it is known here
        self.told_failure: set[int] = set()

    @property
    def alive(self) -> bool:
        return self.state not in ("ended", "dead")


class SimulatedJob:
    """Job under one schedule."""

    def __init__(self, seed: int, faults: Faults | None, kind: type[Agreement] = Agreement) -> None:
        self.chance = random.Random(seed)
        self.faults = wild(self.chance) if faults is None else faults
        self.size = self.chance.randint(2, 5)
        self.budget = self.chance.randint(0, 3)
        self.nodes = [
            SimulatedNode(kind(node, self.size).begin(RestartPolicy(self.budget), True))
            for node in range(self.size)
        ]
        self.verdicts: dict[int, set[str]] = {}
        self.begun: dict[int, set[int]] = {1: set(range(self.size))}
        self.broken: list[str] = []
        self.now = 0.0
        self._count = 0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self.parted = self._spans(self.faults.parted)

    def _spans(self, share: float) -> list[tuple[int, float, float]]:
        """Returns the times at which the links of a node are down."""
        spans = []
        for _ in range(3):
            if self.chance.random() < share:
                start = self.chance.uniform(0, 400)
                spans.append(
                    (self.chance.randrange(self.size), start, start + self.chance.choice([1, 20, 200]))
                )
        return spans

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.now + seconds, self._count, action))

    def run(self) -> SimulatedJob:
        for node in range(self.size):
            self._fail_some_time(node)
            self.at(TICK, lambda node=node: self._tick(node))  # type: ignore[misc]
            if self.chance.random() < self.faults.killed:
                self.at(self.chance.uniform(0, 400), lambda node=node: self._kill(node))  # type: ignore[misc]
            if self.chance.random() < self.faults.left:
                self.at(self.chance.uniform(0, 200), lambda node=node: self._leave(node))  # type: ignore[misc]
        while self._queue and self.now < HORIZON and not self.broken:
            self.now, _, action = heapq.heappop(self._queue)
            action()
        return self

    def _fail_some_time(self, node: int) -> None:
        """Schedules a failure in the first attempts, mostly on one node."""
        attempt = self.nodes[node].agreement.attempt
        if attempt > self.budget + 1:
            return
        if node == attempt % self.size or self.chance.random() < 0.2:
            self.at(self.chance.uniform(1, 60), lambda: self._fail(node, attempt))

    def _fail(self, node: int, attempt: int) -> None:
        here = self.nodes[node]
        if here.state == "running" and here.agreement.attempt == attempt:
            words = "same" if self.chance.random() < self.faults.same else f"{node} {attempt}"
            cause = Cause(node, node, 1, words, self.now)
            here.failed[attempt] = min(here.failed.get(attempt, cause), cause, key=lambda c: c.at)
            self._stop(node)

    def _stop(self, node: int) -> None:
        """Reports a failure of a node, and stops its processes."""
        here = self.nodes[node]
        here.state, attempt = "stopping", here.agreement.attempt
        self._tell_failure(node)
        self.at(self.chance.uniform(0, self.faults.slow_stop), lambda: self._stopped(node, attempt))

    def _tell_failure(self, node: int) -> None:
        here = self.nodes[node]
        attempt = here.agreement.attempt
        if attempt in here.failed and attempt not in here.told_failure:
            here.told_failure.add(attempt)
            self._tell(node, "failed", {"attempt": attempt, "cause": here.failed[attempt]})

    def _stopped(self, node: int, attempt: int) -> None:
        here = self.nodes[node]
        if here.state == "stopping":
            here.state = "stopped"
            final = "no use" if self.chance.random() < self.faults.final else ""
            here.agreement = here.agreement.stopped(AttemptEnd(attempt, final), self.now)
            if node:
                self._tell_agreement(node)
            if self.chance.random() < self.faults.left / 2:  # just after it has said so
                self._leave(node)

    def _tell_agreement(self, node: int) -> None:
        message = self.nodes[node].agreement.message
        if message is not None:
            kind, body = message
            if kind == "go":
                self.verdicts.setdefault(body["attempt"], set()).add(repr(body))
            self._tell(node, kind, body)

    def _kill(self, node: int) -> None:
        if self.nodes[node].alive:
            self.nodes[node].state, self.nodes[node].away = "dead", self.now
            self.at(NOTICED_SECONDS, self._check_all_stopped)

    def _leave(self, node: int) -> None:
        """Stops a node by the platform: it reports that, uploads, and ends."""
        here = self.nodes[node]
        if here.state in ("leaving", "ended", "dead"):
            return
        here.state = "leaving"
        self._tell(node, "over", over_body(node, Over(ENDED, 143)))
        self.at(NOTICED_SECONDS, self._check_all_stopped)
        self.at(self.chance.uniform(0, 60), lambda: self._end(node, 143))

    def _end(self, node: int, code: int) -> None:
        here = self.nodes[node]
        if here.alive:
            self._tell(node, "left", {"code": code})
            here.state, here.away = "ended", self.now

    def _check_all_stopped(self) -> None:
        running = [number for number, node in enumerate(self.nodes) if node.state == "running"]
        first = self.nodes[0].away  # the others learn it by node 0, or that this one has died itself
        if running and self.faults.is_prompt and (first is None or self.now - first >= NOTICED_SECONDS):
            self.broken.append(f"nodes {running} still run {NOTICED_SECONDS:.0f} s after the end of a node")

    def _tick(self, node: int) -> None:
        """Looks for lost peers and a verdict, as a node does from time to time."""
        here = self.nodes[node]
        if not here.alive:
            return
        for other in self._lost(node):
            here.agreement = here.agreement.with_lost(other)
        self._look(node)
        self.at(TICK, lambda: self._tick(node))

    def _look(self, node: int) -> None:
        here = self.nodes[node]
        for other, over in here.agreement.over.items() if not node else ():
            if other not in here.passed_on:
                here.passed_on.add(other)
                self._tell(node, "over", over_body(other, over))
        if here.state == "running" and (here.agreement.why_stop or here.agreement.attempt in here.failed):
            self._stop(node)
        if here.state != "stopped":
            return
        since = here.agreement.stopped_at
        cause = here.failed.get(here.agreement.attempt)
        here.agreement = here.agreement.decided(cause, self.now)
        verdict = here.agreement.verdict
        if since is not None and self.now - since > DECIDED_SECONDS + 2 * TICK:
            self.broken.append(f"node {node} has waited for {self.now - since:.0f} s")
        if verdict is None:
            return
        if not node:
            self._tell_agreement(node)
        if verdict.again:
            self._begin(node)
        else:
            here.state = "leaving"
            self._tell(node, "over", over_body(node, Over(ENDED)))
            self.at(self.chance.uniform(0, 60), lambda: self._end(node, 1))

    def _begin(self, node: int) -> None:
        here, before = self.nodes[node], self.nodes[node].agreement.attempt
        here.agreement = here.agreement.again()
        attempt = here.agreement.attempt
        here.state = "running"
        self.begun.setdefault(attempt, set()).add(node)
        for other, peer in enumerate(self.nodes):
            still = peer.state in ("running", "stopping") and peer.agreement.attempt <= before
            if still and other != node:
                self.broken.append(f"node {node} begins {attempt}, node {other} runs {before}")
        if here.told_over:
            self.broken.append(f"node {node} begins {attempt}, though {here.told_over} take part no more")
        if attempt > self.budget + 1:
            self.broken.append(f"attempt {attempt} with a budget of {self.budget}")
        if not node and len(here.agreement.earlier) != attempt - 1:
            self.broken.append(f"{len(here.agreement.earlier)} failures are known before attempt {attempt}")
        if len(self.verdicts.get(before, {1})) > 1:
            self.broken.append(f"two verdicts on attempt {before}")
        if before not in self.verdicts:
            self.broken.append(f"node {node} begins {attempt} without a verdict of node 0")
        self._fail_some_time(node)

    def _lost(self, node: int) -> list[int]:
        """Returns the peers without a connection for too long."""
        others = [0] if node else range(1, self.size)
        return [other for other in others if self._is_lost(node, other)]

    def _is_lost(self, a: int, b: int) -> bool:
        silent = [s for n, s, end in self.parted if n in (a, b) and s + OUTAGE_SECONDS <= self.now < end]
        away = [since for since in (self.nodes[a].away, self.nodes[b].away) if since is not None]
        return bool(silent) or any(self.now - since > DIED_SECONDS for since in away)

    def _linked(self, a: int, b: int) -> bool:
        if self.nodes[a].away is not None or self.nodes[b].away is not None:
            return False
        return not any(n in (a, b) and start <= self.now < end for n, start, end in self.parted)

    def _tell(self, node: int, kind: str, body: Mapping[str, Any]) -> None:
        for other in range(1, self.size) if not node else [0]:
            for _ in range(2 if self.chance.random() < self.faults.repeated else 1):
                if self._linked(node, other) and self.chance.random() >= self.faults.lost:
                    delay = self.chance.uniform(0, self.faults.late)
                    self.at(delay, lambda other=other: self._hear(other, node, kind, body))  # type: ignore[misc]

    def _hear(self, node: int, sender: int, kind: str, body: Mapping[str, Any]) -> None:
        here = self.nodes[node]
        if not here.alive:
            return
        here.agreement = here.agreement.with_message(sender, kind, body)
        if kind in ("over", "left") and body.get("node") != node:
            here.told_over.add(body.get("node", sender))
        if kind == "failed":
            attempt, cause = body["attempt"], body["cause"]
            known = here.failed.get(attempt, cause)
            here.failed[attempt] = min(known, cause, key=lambda c: c.at)
            if not node and attempt == here.agreement.attempt:
                self._tell_failure(node)
        if here.state == "running":
            self._look(node)
