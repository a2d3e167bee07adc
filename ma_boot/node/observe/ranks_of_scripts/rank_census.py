"""Numbers of the script ranks of all nodes: exchanged by messages, judged on node 0."""

from __future__ import annotations

from collections.abc import Iterable

from ma_boot.errors import ConfigError
from ma_boot.node.observe.peers import Peers
from ma_boot.node.scripts.rank_numbers import (
    LATE_SECONDS,
    JobShape,
    NodeRanks,
    find_wrong_numbers,
    nodes_without_ranks,
)
from ma_boot.node.scripts.script_state import ScriptRank
from ma_boot.report.journal import Journal
from ma_boot.wording import Message


class RankCensus:
    """The numbers of script ranks, as far as this node knows them; node 0 knows those of all nodes.

    Each node but node 0 judges its own ranks alone. `attempt` is that of the job.
    """

    def __init__(self, shape: JobShape, attempt: int, peers: Peers, journal: Journal) -> None:
        self._shape = shape
        self._attempt = attempt
        self._peers = peers
        self._journal = journal
        self._nodes: dict[int, NodeRanks] = {peers.node: NodeRanks()}
        # True once nodes without a rank were reported.
        self._is_late = False

    def count(self, running: Iterable[ScriptRank], now: float) -> bool:
        """Takes the running ranks of this node; returns whether their numbers have changed."""
        before = self._nodes[self._peers.node]
        own = self._nodes[self._peers.node] = before.with_running(running, now)
        has_changed = own.running != before.running
        if has_changed:
            self._send()
        return has_changed

    def end(self) -> None:
        """Reports to node 0 that the command of this node has ended."""
        self._nodes[self._peers.node] = self._nodes[self._peers.node]._replace(ended=True)
        self._send()

    def wrong_numbers(self, now: float) -> ConfigError | None:
        """Returns the error of the numbers that are known; None without one."""
        self._receive()
        self._report_late_nodes()
        own = {self._peers.node: self._nodes[self._peers.node]}
        return find_wrong_numbers(self._shape, own if self._peers.node else self._nodes, now)

    def _send(self) -> None:
        if self._peers.others:
            own = self._nodes[self._peers.node]
            self._peers.tell("ranks", {**own.fields(), "attempt": self._attempt})

    def _receive(self) -> None:
        """Takes the numbers of other nodes; those of an earlier attempt may arrive late."""
        for message in self._peers.heard_of_ranks():
            ranks = NodeRanks.decode(message.body, message.when)
            if ranks is not None and message.body.get("attempt") == self._attempt:
                self._nodes[message.node] = ranks

    def _report_late_nodes(self) -> None:
        """Warns once, on node 0, of nodes on which the command has not started its ranks."""
        late = nodes_without_ranks(self._nodes, self._shape.nodes)
        if late and not self._peers.node and not self._is_late:
            self._is_late = True
            where = Message.of("nodes {}" if len(late) > 1 else "node {}", ", ".join(map(str, late)))
            text = "{} has started no rank yet, while the ranks of other nodes have run for {} s"
            self._journal.warn(Message.of(text, where, f"{LATE_SECONDS:.0f}"))
