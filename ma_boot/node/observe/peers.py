"""The interface to the other nodes of a job: node 0 hears all others, and they hear node 0."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

# Kinds of messages about hangs: that all nodes are to take their stacks; the ranks of a node, the exit codes
# of its ranks, the report of node 0; that the stacks of a node take longer, since its ranks may be at work;
# that a node has shown steps.
HANGING, STACKS, ENDED, REPORT = "hanging", "stacks", "ended", "stacks_report"
LOOKING, STEPS = "looking", "steps"


class PeerMessage(NamedTuple):
    """A message of another node: the kind, the fields, and when (this node's monotonic clock)."""

    node: int
    kind: str
    body: Mapping[str, Any]
    when: float


class Peers(Protocol):
    """The other nodes of a job. Nothing here waits, and nothing raises."""

    @property
    def node(self) -> int:
        """The number of this node."""

    @property
    def others(self) -> Collection[int]:
        """The nodes that hear what this one tells: node 0, or from there all others."""

    @property
    def unreached(self) -> Collection[int]:
        """The nodes of `others` that were connected, and are not any more."""

    @property
    def leader_exit(self) -> int | None:
        """The exit code with which node 0 has ended its processes; None before, and on node 0."""

    def tell(self, kind: str, body: Mapping[str, Any]) -> None:
        """Sends a message to `others`, in the background."""

    def has_rank(self, node: int, rank: int) -> bool:
        """Returns whether a rank belongs to that node."""

    def heard(self) -> Iterable[PeerMessage]:
        """Returns the messages about hangs since the last call."""

    def heard_of_saves(self) -> Iterable[PeerMessage]:
        """Returns the messages about requested checkpoints since the last call."""

    def heard_of_ranks(self) -> Iterable[PeerMessage]:
        """Returns the messages about script ranks since the last call."""
