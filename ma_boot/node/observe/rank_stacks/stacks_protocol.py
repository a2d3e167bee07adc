"""The collection of stacks as a state: received messages, deadlines, and the conclusion. Pure.

        another node                    node 0
        ------------                    ------
        own stacks   -- looking -->     own stacks; waits ANSWER_SECONDS for the others, and
        several times                   LOOKING_SECONDS longer if a node is looking
                     -- stacks -->      draws the conclusion
        prints it    <-- stacks report  prints it

`looking` says that ranks of a node may be at work, so that their stacks are taken several times. Node 0
passes it on, so that the others wait for its report. A node that has already ended has sent `ended` with the
exit codes of its ranks, which replaces its stacks. A node waits REPORT_SECONDS longer than node 0, then it
concludes from its own ranks alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from ma_boot.node.observe.peers import ENDED, LOOKING, REPORT, STACKS, PeerMessage, Peers
from ma_boot.node.observe.rank_stacks.stacks import RankAtHang
from ma_boot.node.observe.rank_stacks.stacks_messages import (
    decode_ends,
    decode_ranks,
    decode_report,
)
from ma_boot.node.observe.rank_stacks.stacks_report import StacksReport

# seconds; py-spy's time on the other node, and a second for the network
ANSWER_SECONDS = 9.0
# seconds; on top of it for the report of node 0
REPORT_SECONDS = 0.7
# seconds; for the own stacks: reading a process in uninterruptible sleep may block
OWN_SECONDS = 12.0
# seconds; on top of all these for a node that is looking: `LOOK_SECONDS` of `sampled_stacks`, and two more
# times the stacks
LOOKING_SECONDS = 24.0
# seconds; instead of ANSWER_SECONDS once all nodes without an answer are unreachable
SILENT_SECONDS = 4.0


class StacksExchange(NamedTuple):
    """State of one collection on one node; times are of the monotonic clock.

    `waiting` are the nodes that have not answered; `own_done` is true once the own stacks are known or given
    up; `report` is the report of node 0. `is_look` is true if the ranks have missed their steps or their
    output; `looking` once a node takes its stacks several times.
    """

    node: int
    began: float
    waiting: frozenset[int]
    own_done: bool = False
    ranks: tuple[RankAtHang, ...] = ()
    report: StacksReport | None = None
    is_look: bool = False
    looking: bool = False

    def received(self, message: PeerMessage, peers: Peers) -> StacksExchange:
        """Adds a message; one of an earlier collection, of an unexpected node or malformed is ignored.

        A node may have left after its ranks have ended: then it is not waited for, but its ranks count.
        """
        if message.kind == ENDED:
            is_unexpected = any(rank.node == message.node for rank in self.ranks)
        else:
            is_old = message.when < self.began - ANSWER_SECONDS
            is_unexpected = is_old or message.node not in self.waiting
        if is_unexpected:
            return self
        if message.kind == LOOKING:
            return self._replace(looking=True)
        answered = self._replace(waiting=self.waiting - {message.node})
        if message.kind == REPORT:
            report = decode_report(message.body)
            return self if report is None else answered._replace(report=report)
        if message.kind != ENDED and (self.node or message.kind != STACKS):
            return self
        ranks = (decode_ranks if message.kind == STACKS else decode_ends)(message, peers)
        return self if ranks is None else answered._replace(ranks=self.ranks + tuple(ranks))

    def with_own(self, ranks: Sequence[RankAtHang]) -> StacksExchange:
        """Adds the ranks of this node; none if their stacks were given up."""
        return self._replace(own_done=True, ranks=self.ranks + tuple(ranks))

    def patience(self, now: float) -> float:
        """Seconds until the peers count as silent or, before that, the own stacks are given up."""
        answer = ANSWER_SECONDS + (REPORT_SECONDS if self.node else 0.0)
        until = self.began + (answer if self.own_done else OWN_SECONDS)
        return max(0.0, until + (LOOKING_SECONDS if self.looking else 0.0) - now)

    def is_finished(self, now: float, unreached: Collection[int]) -> bool:
        """True once all nodes have answered, or their time is over."""
        if self.waiting and self.waiting <= set(unreached):
            return self.own_done and now >= self.began + SILENT_SECONDS
        return self.own_done and (not self.waiting or self.patience(now) <= 0)

    def conclusion(self, unreached: Collection[int]) -> StacksReport:
        """The report of node 0 if it has arrived; else the conclusion from the ranks known here.

        A rank that two nodes claim is believed of this node only.
        """
        if self.report is not None:
            return self.report
        times = Counter(rank.rank for rank in self.ranks)
        ranks = [rank for rank in self.ranks if rank.node == self.node or times[rank.rank] == 1]
        return StacksReport.of(ranks, sorted(self.waiting & set(unreached)), self.is_look)
