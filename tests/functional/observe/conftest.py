"""What observers need: the fixtures of the supervisor's tests, and a way to other nodes that keeps what is sent."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from typing import Any, Callable

import pytest

from ma_boot.node.observe.hangs.hang_detector import HangDetector, HangOptions
from ma_boot.node.observe.metrics.output_reader import OutputReader
from ma_boot.node.observe.peers import PeerMessage
from ma_boot.node.observe.quiet_life import QuietLife
from ma_boot.node.observe.rank_stacks.stacks import RankAtHang
from ma_boot.processes.signals import SignalInbox
from tests.functional.supervisor.conftest import (
    EventLog,
    inbox as inbox,
    journal as journal,
    started as started,
)


def row(rank: Any, **more: Any) -> dict[str, Any]:
    """A rank in the message of a node."""
    fields = RankAtHang(rank, 0, "s", 1.0, state="S", printed=9.0)._asdict()
    return {**fields, "waits_for": [], **more}


class Others:
    """The way of node 0 to nodes 1 and 2, the last of which was not reached; ranks 0 and 1 are its own."""

    others: Collection[int] = (1, 2)
    unreached: Collection[int] = (2, 7)
    leader_exit: int | None = None

    def __init__(self, *others: int, node: int = 0) -> None:
        self.node = node
        self.sent: list[tuple[str, Mapping[str, Any]]] = []
        self.messages: list[PeerMessage] = []
        self.others = others or self.others

    def has_rank(self, node: int, rank: int) -> bool:
        return rank >= 0 and rank not in (0, 1)

    def tell(self, kind: str, body: Mapping[str, Any]) -> None:
        self.sent.append((kind, body))

    def heard(self) -> list[PeerMessage]:
        messages, self.messages = self.messages, []
        return messages

    def heard_of_ranks(self) -> list[PeerMessage]:
        return []

    def heard_of_saves(self) -> list[PeerMessage]:
        return []


def alone() -> Others:
    """No way to other nodes."""
    others = Others()
    others.others = others.unreached = ()
    return others


@pytest.fixture
def life(inbox: SignalInbox) -> Iterator[QuietLife]:
    """What sees the life of quiet ranks."""
    with closing(QuietLife(inbox)) as life:
        yield life


def set_last_round(detector: HangDetector, when: float) -> None:
    """Sets the end of the last collection of stacks, in monotonic seconds."""
    detector.state = detector.state._replace(last_round=when)


Detecting = Callable[..., AbstractContextManager[HangDetector]]


@pytest.fixture
def detecting(inbox: SignalInbox, journal: EventLog) -> Detecting:
    """A detector that asks for a stop after a timeout; without `peers` there is no way to other nodes."""

    def detect(timeout: float | None, peers: Others | None = None) -> AbstractContextManager[HangDetector]:
        output = OutputReader((), journal.warn)
        options = HangOptions(timeout, "stop")
        return closing(HangDetector(options, inbox, journal, peers=peers or alone(), output=output))

    return detect
