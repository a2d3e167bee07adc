"""Exchange with a job's other nodes: folds received messages into frozen values, and reports failures.

PeerChannel --messages--> PeerExchange.receive --> Agreement    facts about each node, the verdict
                                               --> FailureBook  failures of all nodes
                                               --> Readiness    nodes whose ranks may start
                                               --> Mailbox      saves, uploads, hangs: until polled
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from ma_boot.node.peers.failure_book import FailureBook, RankOwners, reports_failure
from ma_boot.node.peers.failure_message import failures_body
from ma_boot.node.peers.mailbox import Mailbox
from ma_boot.node.peers.own_causes import OwnCauses
from ma_boot.node.peers.peer_channel import PeerChannel
from ma_boot.node.peers.readiness import Readiness
from ma_boot.node.peers.restart_protocol import Agreement, over_body
from ma_boot.report.cause import Cause
from ma_boot.report.result import RunResult


class PeerExchange:
    """State of a node's peers as received over the channel.

    It is in `agreement`, `book`, `readiness` and `mailbox`.
    """

    def __init__(self, channel: PeerChannel) -> None:
        self.channel = channel
        self.mailbox = Mailbox()
        self.agreement = Agreement()
        self.book = FailureBook()
        self.readiness = Readiness()
        self.owners = RankOwners()
        self.own_causes = OwnCauses(0, time.time() - time.monotonic())
        self._reported: list[tuple[int, int, int | None, str]] = []
        self._passed_on: set[int] = set()

    @property
    def attempt(self) -> int:
        """The attempt in which all nodes are if they restart together, from 1 on."""
        return self.agreement.attempt

    def identify(self, node: int, nodes: int) -> None:
        """Sets the number of this node, and forgets facts about the nodes of another numbering."""
        if (node, nodes) != (self.agreement.node, self.agreement.nodes):
            self.agreement, self.readiness = Agreement(node, nodes), Readiness()
        self.book = self.book._replace(node=node)
        self.own_causes = self.own_causes._replace(node=node)

    def receive(self) -> bool:
        """Reads arrived messages; returns whether a peer has reported a failure of this attempt."""
        peer_has_failed = False
        with self.channel.best_effort():
            for message in self.channel.messages():
                self.agreement = self.agreement.with_message(message.node, message.kind, message.body)
                self.book = self.book.with_message(message, self.attempt, self.owners)
                self.readiness = self.readiness.with_message(message.node, message.kind, message.body)
                self.mailbox.put(message)
                peer_has_failed = peer_has_failed or reports_failure(message, self.attempt)
            # After the messages: a peer that sent its end before it died has ended, and is not lost.
            for node in self.channel.dead:
                self.agreement = self.agreement.with_lost(node)
            self._pass_on()
        return peer_has_failed

    def root_cause(self, own: Sequence[Cause], run: RunResult | None) -> Cause | None:
        """Returns the root cause as known by now, and sends what this node adds to it: see `failure_book`.

        `own` are this node's failures. Without any failure it is the hang of `run`.
        """
        self.receive()
        if self.agreement.node:
            self._report("failed", own)
        suspect = run.suspect if run is not None else None
        cause = self.book.root_cause(
            self.attempt,
            own,
            lost=self._missing() | self.agreement.lost,
            hang=self.own_causes.hang(suspect) if suspect is not None else None,
            is_hung=run is not None and bool(run.hung),
        )
        if not self.agreement.node and cause is not None:
            self._report("cause", [cause])
        return cause

    def send_agreement(self, cause: Cause | None) -> None:
        """Sends this node's state in the restart protocol, and with node 0's verdict the cause of it."""
        if self.agreement.message is not None:
            kind, body = self.agreement.message
            with self.channel.best_effort():
                self.channel.send(kind, {**body, **failures_body([cause] if cause is not None else [])})

    def _missing(self) -> frozenset[int]:
        """The peers that lost their connection and have neither ended nor reported a failure before."""
        known = {*self.agreement.over, *self.book.exit_codes, *self.book.failed_nodes(self.attempt)}
        return frozenset(self.channel.unreached - known)

    def _report(self, kind: str, failures: Sequence[Cause]) -> None:
        """Sends failures, unless the last report was the same."""
        # Without the moments, which differ for a rank that is looked at while it runs.
        report = [(self.attempt, failure.node, failure.rank, failure.words) for failure in failures]
        if report and report != self._reported:
            self._reported = report
            with self.channel.best_effort():
                self.channel.send(kind, {"attempt": self.attempt, **failures_body(failures)})

    def _pass_on(self) -> None:
        """Sends as node 0 which node's end has failed the job: the others are connected to node 0 alone."""
        if self.agreement.node:
            return
        for node, over in self.agreement.over.items():
            if over.is_failure and node not in self._passed_on:
                self._passed_on.add(node)
                self.channel.send("over", over_body(node, over))
