"""Barrier before the first attempt: the ranks of all nodes start together.

Nodes copy their inputs for unlike times, and the rendezvous of a framework ends the ranks that wait longer
than its own timeout.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection

from ma_boot.node.peers.peer_exchange import PeerExchange
from ma_boot.node.peers.readiness import KIND, awaited_body
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.task import REMIND_SECONDS
from ma_boot.report.journal import Journal
from ma_boot.report.result import ExitStatus
from ma_boot.wording import Message, ProgressLine, WarningLine

# Seconds; max. wait for a node that has never connected: its container starts late, or no port is open
# between the nodes.
CONNECT_SECONDS = 300.0
# Seconds; max. wait for connected nodes, which copy their inputs.
READY_SECONDS = 4 * 3600.0
# Seconds between two reports of the same: a node that starts anew has lost the earlier ones.
REPEAT_SECONDS = 5.0
# Seconds between two reports of node 0: a channel reads at most 20 messages of a node in 10 s.
RELAY_SECONDS = 0.5
# Seconds until the first line about the wait: most nodes are ready at the same time.
FIRST_LINE_SECONDS = 1.0
# Nodes that a line names.
MOST_NAMED = 8


class StartBarrier:
    """Wait of a node until all nodes are ready, which node 0 decides."""

    def __init__(self, exchange: PeerExchange, inbox: SignalInbox, journal: Journal) -> None:
        self._exchange = exchange
        self._inbox = inbox
        self._journal = journal
        self._reported: frozenset[int] | None = None
        self._reported_at = -math.inf

    def wait(self) -> ExitStatus | None:
        """Waits for the other nodes; returns the failure of one of them, for which no node starts.

        Without a channel it returns at once. Raises `Stopped`.
        """
        began = time.monotonic()
        line_at = began + FIRST_LINE_SECONDS
        while True:
            self._inbox.check()
            self._exchange.receive()
            failure = self._exchange.agreement.failure
            if failure is not None or not self._exchange.channel.is_open:
                return failure
            now = time.monotonic()
            missing = self._missing()
            awaited = self._still_awaited(missing, now - began)
            self._report(awaited, now)
            if not awaited:
                self._warn_of(missing, now - began)
                return None
            if now >= line_at:
                line_at = now + REMIND_SECONDS
                self._journal.say(ProgressLine(Message.of("waiting until {} ready", _are(awaited))))
            self._inbox.wait(RELAY_SECONDS)

    def _missing(self) -> frozenset[int]:
        """The nodes that are not known to be ready; for other nodes than node 0 as node 0 has reported it."""
        agreement, known = self._exchange.agreement, self._exchange.readiness
        if agreement.node:
            awaited = frozenset((0,)) if known.awaited is None else known.awaited
            return awaited - agreement.over.keys()
        return frozenset(range(1, agreement.nodes)) - known.ready - agreement.over.keys()

    def _still_awaited(self, missing: frozenset[int], seconds: float) -> frozenset[int]:
        """The nodes to wait for after so many seconds."""
        if seconds >= READY_SECONDS:
            return frozenset()
        connected = self._exchange.channel.connected
        if seconds < CONNECT_SECONDS or (self._exchange.agreement.node and 0 in connected):
            return missing
        return missing & connected

    def _report(self, awaited: frozenset[int], now: float) -> None:
        """Sends that this node is ready, as node 0 which nodes are awaited."""
        pause = RELAY_SECONDS if awaited != self._reported else REPEAT_SECONDS
        is_leader = not self._exchange.agreement.node
        # The last report of node 0 starts the job, so it does not wait for its turn.
        if now - self._reported_at < pause and not (is_leader and not awaited):
            return
        if is_leader or self._reported is None or pause == REPEAT_SECONDS:
            self._exchange.channel.send(KIND, awaited_body(awaited) if is_leader else {})
            self._reported_at = now
        self._reported = awaited

    def _warn_of(self, missing: frozenset[int], seconds: float) -> None:
        if missing:
            text = "the ranks start, though {} not ready after {} s"
            self._journal.say(WarningLine(Message.of(text, _are(missing), f"{seconds:.0f}")))


def _are(nodes: Collection[int]) -> Message:
    """Returns the subject of a sentence, with its verb."""
    first = sorted(nodes)[:MOST_NAMED]
    names = ", ".join(map(str, first)) + ("" if len(first) == len(nodes) else ", ...")
    return Message.of("node {} is" if len(nodes) == 1 else "nodes {} are", names)
