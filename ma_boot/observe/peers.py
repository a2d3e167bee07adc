"""What the supervisor asks of the way to the other nodes of a job; `Alone` is a node without such a way."""

from __future__ import annotations

from typing import Any, Collection, List, Mapping, NamedTuple, Protocol

from ma_boot.reporting import RunResult


class PeerMessage(NamedTuple):
    """What another node has told: the kind, the fields, and when (this node's monotonic clock)."""

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

    def tell_failures(self, run: RunResult) -> None:
        """Tells the others which of this node's processes have failed so far."""

    def heard(self) -> List[PeerMessage]:
        """What has come since the last call."""


class Alone(NamedTuple):
    """A node that hears of no other."""

    node: int = 0
    others: Collection[int] = ()
    unreached: Collection[int] = ()

    def tell(self, kind: str, body: Mapping[str, Any]) -> None:
        """Tells nobody."""

    def tell_failures(self, run: RunResult) -> None:
        """Tells nobody."""

    def heard(self) -> List[PeerMessage]:
        """Hears nothing."""
        return []


ALONE = Alone()
