"""A channel that keeps what is sent and returns given messages, in place of `NodeChannel`."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

from ma_boot.node.boot.process_context import ProcessContext
from ma_boot.node.observe.channel.channel import NodeChannel
from ma_boot.node.observe.peers import PeerMessage
from ma_boot.node.peers.job_peers import JobPeers
from ma_boot.platform.modelarts.job import JobEnvironment, read_job
from tests.functional.channel.nodes import TOKEN


class FakeChannel:
    """The channel of a node to the nodes `others`, which are connected unless they are in `dead`."""

    def __init__(self, others: Collection[int]) -> None:
        self.others = frozenset(others)
        self.connected = set(others)
        self.unreached, self.away, self.dead = set[int](), set[int](), set[int]()
        self.sent: list[tuple[str, Mapping[str, Any]]] = []
        self.messages: list[PeerMessage] = []
        self.error: Exception | None = None
        self.problem: str | None = None

    def receive(self, node: int, kind: str, body: Mapping[str, Any]) -> None:
        """Queues a message of a node."""
        self.messages.append(PeerMessage(node, kind, body, time.monotonic()))

    def send(self, kind: str, body: Mapping[str, Any]) -> None:
        self.sent.append((kind, body))

    def poll(self) -> Iterator[PeerMessage]:
        if self.error is not None:
            raise self.error
        messages, self.messages = self.messages, []
        yield from messages

    def flush(self, seconds: float) -> bool:
        return True

    def settle(self) -> bool:
        return True

    def close(self) -> None:
        """Closes no resource: the channel is a fake."""


def job_of(node: int, nodes: int) -> JobEnvironment:
    """The job of a node, by its number."""
    hosts = ",".join(f"host-{number}" for number in range(nodes))
    environ = {"MA_NUM_HOSTS": str(nodes), "VC_TASK_INDEX": str(node), "VC_WORKER_HOSTS": hosts}
    return read_job(environ, "host")


def peers_over(channel: FakeChannel, context: ProcessContext, node: int, nodes: int) -> JobPeers:
    """The peers of a node of a job with this channel; what it has sent to greet them is dropped."""
    peers = JobPeers(TOKEN, context.inbox, context.journal, lambda *arguments: cast(NodeChannel, channel))
    peers.open(job_of(node, nodes), 0)
    channel.sent.clear()
    return peers
