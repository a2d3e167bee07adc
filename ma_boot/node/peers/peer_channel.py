"""Best-effort messaging between the nodes of a job (requires MABOOT_JOB_TOKEN).

Nodes form a star: each one is connected to node 0 alone, and node 0 to all others. The first error closes the
channel with one warning, and the job continues without its peers.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Callable

from ma_boot.errors import ConfigError, described
from ma_boot.node.observe.peers import PeerMessage
from ma_boot.node.peers.restart_protocol import MUTE, Over, over_body
from ma_boot.platform.modelarts.job import JOB_TOKEN, JobEnvironment
from ma_boot.platform.rank_table import RankTable, own_pod
from ma_boot.processes.signals import SignalInbox
from ma_boot.redact import masked
from ma_boot.report.journal import Journal
from ma_boot.wording import coded

if TYPE_CHECKING:
    from ma_boot.node.observe.channel.channel import NodeChannel

# The modules of the channel are imported where a job has a token: asyncio alone costs a start 50 ms.

# Seconds; max. wait until a last message is written to the sockets, where losing it costs little.
FLUSH_SECONDS = 0.15


class PeerChannel:
    """This node's channel to its peers: closed before `open`, and for good after the first error.

    Sending and receiving never block: messages are sent in the background and queued until they are read.
    """

    without = "this node continues without its peers"

    def __init__(
        self,
        token: str,
        inbox: SignalInbox,
        journal: Journal,
        connect: Callable[..., NodeChannel] | None = None,
    ) -> None:
        self.node = 0
        self.nodes = 1
        self._token = token
        self._inbox = inbox
        self._journal = journal
        self._connect = connect or connected_channel
        self._channel: NodeChannel | None = None

    @property
    def is_open(self) -> bool:
        """True while messages can be sent."""
        return self._channel is not None

    @property
    def peers(self) -> Collection[int]:
        """The nodes that receive this node's messages: node 0, or from there all others."""
        return self._channel.others if self._channel is not None else ()

    @property
    def connected(self) -> set[int]:
        """The peers that were connected at least once."""
        return self._channel.connected if self._channel is not None else set()

    @property
    def unreached(self) -> set[int]:
        """The peers that were connected once and are not any more."""
        return self._channel.unreached & self.connected if self._channel is not None else set()

    @property
    def away(self) -> set[int]:
        """The peers that were connected and are not at this moment: a short outage counts, too."""
        return self._channel.away if self._channel is not None else set()

    @property
    def dead(self) -> set[int]:
        """The peers whose process has died, or that are away for longer than a network outage."""
        return self._channel.dead if self._channel is not None else set()

    def open(self, job: JobEnvironment, port: int) -> None:
        """Listens as node 0, or calls it if the platform's variables have its address.

        Raises `ConfigError` for a token that is too short.
        """
        self.node, self.nodes = job.node_rank, job.node_count
        if job.node_count < 2:
            return
        if not self._token:
            self._journal.warn(
                f"{JOB_TOKEN} is not set: failures, hangs and losses of the other {job.node_count - 1} nodes "
                "are not detected here; set it to the same random text on all nodes, and to another one in "
                "each job, for example from `openssl rand -hex 16`"
            )
            return
        check_token(self._token)
        with self.best_effort():
            self._channel = self._connect(self._token, job, port, self._inbox)
            problem = self._channel.problem
            if problem:
                self._journal.warn(
                    f"this node receives nothing from its peers: {problem} (MABOOT_CHANNEL_PORT)"
                )
            # The identity of this process: a restarted pod is another peer under the same number.
            self._channel.send("here", {"boot": os.urandom(8).hex()})

    def meet(self, job: JobEnvironment, table: RankTable | None, port: int) -> None:
        """Calls node 0 at its address in the rank table, if the variables do not have it.

        Closes the channel if the table has more nodes than the variables (HyperJob): it reaches only a part.
        """
        if job.node_count != self.nodes and self.is_open:
            self.give_up(f"the rank table has {job.node_count} nodes, the variables name {self.nodes}")
        self.node, self.nodes = job.node_rank, job.node_count
        with self.best_effort():
            if self._channel is not None:
                call_leader(self._channel, table, job, port)

    def send(self, kind: str, body: Mapping[str, Any]) -> None:
        """Sends a message to `peers` in the background, with secrets masked."""
        with self.best_effort():
            if self._channel is not None:
                self._channel.send(kind, coded(masked(body)))

    def messages(self) -> Iterator[PeerMessage]:
        """Yields the messages received since the last call."""
        if self._channel is not None:
            yield from self._channel.poll()

    def flush(self, seconds: float, outlast_outage: bool = False) -> None:
        """Waits until the messages are sent, for at most `seconds`.

        With `outlast_outage` it waits longer for peers that may be behind a network outage.
        """
        with self.best_effort():
            if self._channel is not None:
                self._channel.flush(seconds)
                if outlast_outage:
                    self._channel.settle()

    def give_up(self, reason: str) -> None:
        """Closes the channel for good, with a warning; the job continues."""
        channel, self._channel = self._channel, None
        self._journal.warn(f"{self.without}: {reason}")
        if channel is not None:
            with suppress(Exception):
                # Peers would otherwise count this node as lost, which fails the job.
                channel.send("over", over_body(self.node, Over(MUTE)))
                channel.flush(FLUSH_SECONDS)
            with suppress(Exception):
                channel.close()

    def close(self) -> None:
        """Ends the channel's thread and frees its port."""
        channel, self._channel = self._channel, None
        if channel is not None:
            with self.best_effort():
                channel.close()

    @contextmanager
    def best_effort(self) -> Iterator[None]:
        """Gives up the channel if the block raises."""
        try:
            yield
        except Exception as error:
            self.give_up(described(error))


def check_token(token: str) -> None:
    """Raises `ConfigError` for a token that is too short to resist guessing."""
    from ma_boot.node.observe.channel.protocol import SHORTEST_TOKEN

    if len(token) < SHORTEST_TOKEN:
        raise ConfigError(
            f"{JOB_TOKEN} has {len(token)} characters: expected at least {SHORTEST_TOKEN}, the "
            "same on all nodes and in no other job, for example from `openssl rand -hex 16`"
        )


def connected_channel(token: str, job: JobEnvironment, port: int, inbox: SignalInbox) -> NodeChannel:
    """Listens as node 0, or calls it if the platform's variables have its address.

    Raises `RuntimeError` at the limit of threads.
    """
    from ma_boot.node.observe.channel.channel import NodeChannel
    from ma_boot.node.observe.channel.protocol import Address

    channel = NodeChannel(
        token,
        job=job.place.job or "",
        node=job.node_rank,
        nodes=job.node_count,
        own=Address(_own_address(job), port),
        inbox=inbox,
    )
    if len(job.place.hosts) == job.node_count:
        channel.meet(Address(job.place.hosts[0], port))
    return channel


def call_leader(channel: NodeChannel, table: RankTable | None, job: JobEnvironment, port: int) -> None:
    """Calls node 0 at its address in the rank table, unless the variables have it."""
    from ma_boot.node.observe.channel.protocol import Address

    if table is None or len(job.place.hosts) == job.node_count:
        return
    pods = table.pods
    if len(pods) == job.node_count and pods.index(own_pod(table, job.identity)) == job.node_rank:
        leader = pods[0]
        host = leader.more.get("container_ip") or leader.more.get("host_ip") or leader.server_id
        channel.meet(Address(str(host), port))


def _own_address(job: JobEnvironment) -> str:
    """Returns this node's address if the variables have it as a number, else "" for all addresses.

    Names are not resolved here: a name server that does not answer would delay the start of the job.
    """
    known = len(job.place.hosts) == job.node_count
    for host in (job.place.hosts[job.node_rank],) if known else job.identity.addresses:
        try:
            return str(ip_address(host))
        except ValueError:
            continue
    return ""
