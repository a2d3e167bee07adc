"""Failures that the nodes of a job have reported, and the root cause that follows from them. Pure.

Each node reports its own failures to node 0, which returns the root cause by all of them:

    node k   failed   its failures, at once and again when they change
    node 0   cause    the root cause by now, again when a better one is known
    any      left     its last message, with its exit code
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ma_boot.errors import ExitCode
from ma_boot.node.observe.peers import PeerMessage
from ma_boot.node.peers.failure_message import read_failures
from ma_boot.report.cause import LOST_PEER, Cause, cause_of

_WITH_FAILURES = ("failed", "cause", "go")


class RankOwners(NamedTuple):
    """Placement of ranks as one node knows it: its own `ranks`, and by them those of its peers.

    `in_order` is true if each node has as many ranks as this one, in the order of the nodes.
    """

    ranks: Sequence[int] = ()
    in_order: bool = False

    @classmethod
    def of(cls, node: int, nodes: int, ranks: Sequence[int], world_size: int) -> RankOwners:
        """Returns the owners by the ranks of `node`."""
        each = len(ranks)
        first = node * each
        return cls(ranks, world_size == nodes * each and [*ranks] == [*range(first, first + each)])

    def has_rank(self, node: int, rank: int) -> bool:
        """Returns whether a peer may report this rank as its own."""
        return rank // len(self.ranks) == node if self.in_order else rank >= 0 and rank not in self.ranks


class FailureBook(NamedTuple):
    """Failures reported to node `node`, by attempt and node; each method returns the next value.

    `exit_codes` are those of the nodes that have sent their last message.
    """

    node: int = 0
    failures: Mapping[tuple[int, int], Sequence[Cause]] = {}
    exit_codes: Mapping[int, object] = {}

    def with_message(self, message: PeerMessage, attempt: int, owners: RankOwners) -> FailureBook:
        """After a message of a peer, with this node in its attempt `attempt`.

        A peer may be one attempt ahead: it has read node 0's decision first. Invalid messages change nothing.
        """
        if message.kind == "left":
            code = message.body.get("code")
            return self._replace(exit_codes={**self.exit_codes, message.node: code})
        if message.kind not in _WITH_FAILURES:
            return self
        of_attempt = message.body.get("attempt", attempt)
        failures = read_failures(message.node, message.body, owners.has_rank)
        if not failures or of_attempt not in (attempt, attempt + 1):
            return self
        return self._replace(failures={**self.failures, (of_attempt, message.node): failures})

    def of_peers(self, attempt: int) -> list[Cause]:
        """Returns the failures that peers have reported of an attempt."""
        return [failure for node in self.failed_nodes(attempt) for failure in self.failures[attempt, node]]

    def failed_nodes(self, attempt: int) -> list[int]:
        """Returns the peers that have reported failures of an attempt, by the order of first reports."""
        return [node for of_attempt, node in self.failures if of_attempt == attempt]

    def first_elsewhere(self, attempt: int, lost: Sequence[int] = ()) -> Cause | None:
        """Returns the first failure of another node; `lost` are nodes that vanished without an exit code."""
        return cause_of((cause for cause in self.of_peers(attempt) if cause.node != self.node), lost)

    def root_cause(
        self,
        attempt: int,
        own: Sequence[Cause],
        lost: Collection[int] = (),
        hang: Cause | None = None,
        is_hung: bool = False,
    ) -> Cause | None:
        """Returns the root cause of an attempt by now, None if nothing has failed.

        `own` are the failures of this node, `hang` the suspect of the last hang if there is one, and
        `is_hung` whether that hang has ended the run here. Node 0's root cause takes precedence over this
        node's, unless this node has better evidence.
        """
        if self.node:
            named = next(iter(self.failures.get((attempt, 0), ())), None)
            mine = cause_of(own)
            if named is not None and (mine is None or named.evidence <= mine.evidence):
                return named
        reported = [*own, *self.of_peers(attempt)]
        # A node that stopped its ranks for a hang reports that without a rank: the suspect says more.
        failures = [cause for cause in reported if (cause.code, cause.rank) != (ExitCode.HUNG, None)]
        has_ended = is_hung or len(failures) < len(reported) or ExitCode.HUNG in self.exit_codes.values()
        if hang is not None or has_ended:
            # The first node that stops its ranks for a hang takes their peers from all others.
            failures = [cause for cause in failures if cause.evidence != LOST_PEER]
        if hang is not None and not failures and (has_ended or reported):
            return hang
        of_hang = [cause for cause in reported if cause.code == ExitCode.HUNG] if has_ended else []
        return cause_of(failures or of_hang or reported, sorted(lost))


def reports_failure(message: PeerMessage, attempt: int) -> bool:
    """Returns whether a message reports that this attempt has failed on another node."""
    return message.kind in _WITH_FAILURES and message.body.get("attempt", attempt) == attempt
