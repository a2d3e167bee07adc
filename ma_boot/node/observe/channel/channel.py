"""Messages between node 0 and each other node of a job.

Calls never block, except `flush`, `settle` and `close`: messages are sent by a thread with an event loop, and
received messages are queued until polled. Invalid messages are dropped silently.

    any thread                          thread of the event loop                           peer
    send ---> LoopThread.submit ---> PeerLink (outbox) -------> PeerConnection.write ------>
    poll <--- ReceivedMessages <---- PeerLink.limit_rate <----- PeerConnection.read <-------

Node 0 listens; each other node connects to it, and connects again whenever the connection ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any, Callable

from ma_boot.node.observe.channel import peer_link, protocol
from ma_boot.node.observe.channel.connection import (
    BROKEN,
    PeerConnection,
    greet_as_client,
    greet_as_server,
    open_listener,
    open_streams,
)
from ma_boot.node.observe.channel.loop_thread import LoopThread
from ma_boot.node.observe.channel.peer_link import ConnectionState, OutgoingMessage, PeerLink
from ma_boot.node.observe.channel.protocol import Address
from ma_boot.node.observe.channel.received import ReceivedMessage, ReceivedMessages
from ma_boot.node.observe.peers import PeerMessage
from ma_boot.processes.signals import SignalInbox

# Seconds for both proofs, from the first byte on.
GREETING_SECONDS = 2.0
CONNECT_SECONDS = 1.5
# Seconds between two attempts to connect: the first and the longest pause, doubled from one to the next.
MIN_BACKOFF, MAX_BACKOFF = 0.2, 2.0
# Connections that have not authenticated yet. A further one ends the oldest, so that a flood of them cannot
# use up the descriptors.
MAX_UNAUTHENTICATED = 64
# A pause, in seconds, after so many accepted connections: a flood of them costs little of a core.
ACCEPTED_AT_ONCE = 32
ACCEPT_PAUSE = 0.05
# Seconds between two looks at the outboxes in `flush` and `settle`.
FLUSH_PAUSE = 0.01


class NodeChannel:
    """Channel of node `node` to its peers: node 0 has all others as peers, each other node has node 0 only.

    It has a thread, and node 0 a port, until `close`. `problem` is the reason why node 0 does not listen,
    None if it does.

    Raises:
        RuntimeError: the limit of threads is reached.
    """

    def __init__(self, token: str, job: str, node: int, nodes: int, own: Address, inbox: SignalInbox) -> None:
        self.node = node
        self.others = frozenset(range(1, nodes) if node == 0 else (0,))
        self._key = protocol.key_of(token, job)
        self._inbox = inbox
        self._received = ReceivedMessages(nodes)
        self._links: dict[int, PeerLink] = {}
        # In the order of their arrival: a dict, because there is no ordered set.
        self._unauthenticated: dict[asyncio.Task[None], None] = {}
        self._listener, self.problem = open_listener(own) if node == 0 else (None, None)
        self._thread = LoopThread("channel", self._begin, self._close_listener)
        self._thread.start()

    @property
    def connected(self) -> set[int]:
        """Peers that were connected at least once."""
        return self._peers_where(lambda state: state.was_connected)

    @property
    def unreached(self) -> set[int]:
        """Peers that have had no connection for more than a moment."""
        now = time.monotonic()
        return self._peers_where(lambda state: state.is_unreached(now))

    @property
    def away(self) -> set[int]:
        """Peers that were connected and are not now."""
        return self._peers_where(lambda state: state.is_away)

    @property
    def dead(self) -> set[int]:
        """Peers whose process has died, or that are away for longer than an outage of the network."""
        now = time.monotonic()
        return self._peers_where(lambda state: state.is_dead(now))

    def meet(self, leader: Address) -> None:
        """Connects to node 0 at this address from now on; no effect on node 0."""

        def connect() -> None:
            link = self._links[0]
            link.replace_task(self._thread.loop.create_task(self._keep_connected(leader, link)))

        if self.node:
            self._thread.submit(connect)

    def send(self, kind: str, body: Mapping[str, Any]) -> None:
        """Sends a message to all peers in the background."""
        message = OutgoingMessage(kind, time.monotonic(), protocol.encoded(body))

        def enqueue() -> None:
            for link in self._links.values():
                link.enqueue(message)

        self._thread.submit(enqueue)

    def poll(self) -> Iterator[PeerMessage]:
        """Yields the messages received since the last call, and skips invalid ones."""
        for received in self._received.drain():
            message = protocol.unpacked(received.data)
            if message is not None:
                kind, late, body = message
                yield PeerMessage(received.node, kind, body, received.arrived_at - late)

    def flush(self, seconds: float) -> bool:
        """Waits until all sent messages are acknowledged; False after `seconds`.

        Peers that were connected and are away now are not waited for.
        """
        return self._wait_for_peers(seconds, lambda state: not state.is_away)

    def settle(self) -> bool:
        """Waits, also through an outage of the network, until all sent messages are acknowledged.

        Peers that have closed the connection are not waited for. False after OUTAGE_SECONDS.
        """
        limit = peer_link.OUTAGE_SECONDS
        return self._wait_for_peers(limit, lambda state: state.may_receive(time.monotonic()))

    def close(self) -> None:
        """Ends the thread and frees the port; drops messages that are not sent yet."""
        self._thread.stop()

    def _peers_where(self, matches: Callable[[ConnectionState], bool]) -> set[int]:
        return {node for node, link in self._links.items() if matches(link.state)}

    def _wait_for_peers(self, seconds: float, matches: Callable[[ConnectionState], bool]) -> bool:
        deadline = time.monotonic() + seconds
        while self._thread.has_pending or any(
            link.has_unsent and matches(link.state) for link in self._links.values()
        ):
            if time.monotonic() >= deadline:
                return False
            time.sleep(FLUSH_PAUSE)
        return True

    def _begin(self) -> None:
        self._links = {node: PeerLink() for node in self.others}
        if self._listener is not None:
            self._thread.loop.create_task(self._accept(self._listener))

    def _close_listener(self) -> None:
        if self._listener is not None:
            self._listener.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop, accepted = self._thread.loop, 0
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError:  # no descriptor is free
                await asyncio.sleep(ACCEPT_PAUSE)
                continue
            while len(self._unauthenticated) >= MAX_UNAUTHENTICATED:
                oldest = next(iter(self._unauthenticated))
                del self._unauthenticated[oldest]
                oldest.cancel()
            task = loop.create_task(self._serve(connection))
            self._unauthenticated[task] = None
            task.add_done_callback(lambda done: self._unauthenticated.pop(done, None))
            accepted += 1
            if accepted % ACCEPTED_AT_ONCE == 0:
                await asyncio.sleep(ACCEPT_PAUSE)

    async def _serve(self, connection: socket.socket) -> None:
        """Authenticates an incoming connection and serves it if it is a node of this job."""
        with contextlib.suppress(*BROKEN):
            async with open_streams(asyncio.open_connection(sock=connection)) as streams:
                greeting = greet_as_server(streams, self._key, self.others)
                session = await asyncio.wait_for(greeting, GREETING_SECONDS)
                task, link = asyncio.current_task(), self._links[session.node]
                link.replace_task(task)
                if task is not None:
                    self._unauthenticated.pop(task, None)
                await self._exchange(link, PeerConnection(session, "server", "client", streams), session.node)

    async def _keep_connected(self, leader: Address, link: PeerLink) -> None:
        """Connects to node 0, again whenever the connection ends."""
        backoff = MIN_BACKOFF
        while True:
            try:
                opening = asyncio.wait_for(asyncio.open_connection(*leader), CONNECT_SECONDS)
                async with open_streams(opening) as streams:
                    greeting = greet_as_client(streams, self._key, self.node)
                    session = await asyncio.wait_for(greeting, GREETING_SECONDS)
                    backoff = MIN_BACKOFF
                    await self._exchange(link, PeerConnection(session, "client", "server", streams), 0)
            except ConnectionRefusedError:
                # The machine is up and its process does not listen: it may have died.
                self._note_closed(link)
            except BROKEN:
                pass
            await asyncio.sleep(backoff)
            backoff = min(MAX_BACKOFF, 2 * backoff)

    async def _exchange(self, link: PeerLink, connection: PeerConnection, node: int) -> None:
        """Sends the outbox and queues received messages until the connection ends."""
        link.state = ConnectionState(was_connected=True, lost_at=None)
        sending = self._thread.loop.create_task(link.send_outbox(connection))
        task, is_closed = link.task, False
        try:
            while True:
                data = await connection.read()
                if not data:
                    link.acknowledge()
                    continue
                self._received.append(ReceivedMessage(node, data, time.monotonic()))
                self._inbox.wake()
                connection.write(b"")
                await link.limit_rate()
        except (EOFError, ConnectionError):
            is_closed = True
            raise
        finally:
            sending.cancel()
            # A newer connection of the same peer has replaced the task: the peer is not away then.
            if link.task is task:
                link.state = link.state._replace(lost_at=time.monotonic())
                self._wake_after(peer_link.OUTAGE_SECONDS)
                if is_closed:
                    self._note_closed(link)
            self._inbox.wake()

    def _note_closed(self, link: PeerLink) -> None:
        """Records that the peer's machine has closed or refused the connection."""
        if link.state.closed_at is None:
            link.state = link.state._replace(closed_at=time.monotonic())
            self._wake_after(peer_link.DIED_SECONDS)

    def _wake_after(self, seconds: float) -> None:
        """Wakes the main thread once the peer may count as dead; a little later, as it compares with `>`."""
        self._thread.loop.call_later(seconds + FLUSH_PAUSE, self._inbox.wake)
