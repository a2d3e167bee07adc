"""What is asked of the way to the other nodes of a job."""

from __future__ import annotations

from typing import Any, Collection, List, Mapping, NamedTuple, Protocol


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
        """The numbers of the other nodes; none if there is no way to them."""

    @property
    def unreached(self) -> Collection[int]:
        """Those that the last message did not reach."""

    def tell(self, kind: str, body: Mapping[str, Any]) -> None:
        """Sends a message to all other nodes, in the background."""

    def heard(self) -> List[PeerMessage]:
        """What has come since the last call."""
