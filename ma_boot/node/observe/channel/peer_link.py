"""Outbox and connection state of one peer.

Connection states:

    never connected --connect--> connected --lost--> away --timeout--> dead
                                     ^                 |                 |
                                     +-----connect-----+-----connect-----+

The timeout is DIED_SECONDS if the peer's machine has closed or refused the connection, else OUTAGE_SECONDS.

A message stays in the outbox until the peer has acknowledged it with an empty message. If the connection ends
in between, the message is sent again over the next one, so the peer may receive it twice.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import NamedTuple

from ma_boot.node.observe.channel import protocol
from ma_boot.node.observe.channel.connection import PeerConnection

# Seconds without a connection until a peer counts as unreached. Shorter gaps occur at each reconnection.
UNREACHED_SECONDS = 0.5
# Seconds until a peer counts as dead after its machine has closed or refused the connection. The kernel does
# that for a process that has died; a living one connects again within MAX_BACKOFF + CONNECT_SECONDS (3.5 s).
DIED_SECONDS = 6.0
# Seconds until a peer counts as dead if its connection broke without being closed. The network may be down,
# and a job survives an outage of 30 s.
OUTAGE_SECONDS = 35.0
# Messages in the outbox of one peer; the oldest is dropped first.
MAX_OUTBOX = 16
# Messages read from one peer within RATE_SECONDS. Further ones stay in the socket, which slows the peer down.
MAX_RATE = 20
RATE_SECONDS = 10.0


class OutgoingMessage(NamedTuple):
    """Message in an outbox: its kind, monotonic seconds of the event, and JSON body."""

    kind: str
    created_at: float
    body: str


class ConnectionState(NamedTuple):
    """Connection history of a peer, in monotonic seconds.

    Immutable: the channel's thread replaces it as a whole, so other threads always read a consistent one.
    `lost_at` is None while connected. `closed_at` is None unless the peer's machine has closed or refused the
    connection since.
    """

    was_connected: bool
    lost_at: float | None
    closed_at: float | None = None

    @property
    def is_connected(self) -> bool:
        """True while there is a connection."""
        return self.lost_at is None

    @property
    def is_away(self) -> bool:
        """True between the end of a connection and the next one."""
        return self.was_connected and not self.is_connected

    def is_unreached(self, now: float) -> bool:
        """Returns True if the peer has had no connection for UNREACHED_SECONDS."""
        return self.lost_at is not None and now - self.lost_at > UNREACHED_SECONDS

    def is_dead(self, now: float) -> bool:
        """Returns True if the peer was connected and has been away for too long to come back."""
        if not self.was_connected or self.lost_at is None:
            return False
        died = self.closed_at is not None and now - self.closed_at > DIED_SECONDS
        return died or now - self.lost_at > OUTAGE_SECONDS

    def may_receive(self, now: float) -> bool:
        """Returns True if the peer was connected and may still read messages."""
        return self.was_connected and self.closed_at is None and not self.is_dead(now)


class PeerLink:
    """Outbox and connection of one peer.

    Create it in the thread of the event loop: before Python 3.10 an `asyncio.Event` belongs to the loop that
    is current when it is created.
    """

    def __init__(self) -> None:
        self.state = ConnectionState(was_connected=False, lost_at=time.monotonic())
        self.task: asyncio.Task[None] | None = None
        self._outbox: deque[OutgoingMessage] = deque(maxlen=MAX_OUTBOX)
        self._has_mail = asyncio.Event()
        self._is_acknowledged = asyncio.Event()
        self._read_times: deque[float] = deque()

    @property
    def has_unsent(self) -> bool:
        """True while the outbox has messages that the peer has not acknowledged."""
        return bool(self._outbox)

    def replace_task(self, task: asyncio.Task[None] | None) -> None:
        """Makes a task the one that serves the peer, and cancels the previous one.

        A peer may connect again before the end of its last connection is noticed here.
        """
        if self.task is not None:
            self.task.cancel()
        self.task = task

    def enqueue(self, message: OutgoingMessage) -> None:
        """Adds a message to the outbox."""
        self._outbox.append(message)
        self._has_mail.set()

    def acknowledge(self) -> None:
        """Records the peer's acknowledgement of the message sent last."""
        self._is_acknowledged.set()

    async def send_outbox(self, connection: PeerConnection) -> None:
        """Sends the messages of the outbox one at a time until cancelled; skips those over the size limit."""
        while True:
            self._has_mail.clear()
            if not self._outbox:
                await self._has_mail.wait()
                continue
            message = self._outbox[0]
            data = protocol.packed(message.kind, time.monotonic() - message.created_at, message.body)
            if len(data) <= protocol.MOST_BYTES:
                self._is_acknowledged.clear()
                connection.write(data)
                await self._is_acknowledged.wait()
            # A full outbox has dropped its oldest message meanwhile: the first one may be another.
            if self._outbox and self._outbox[0] is message:
                self._outbox.popleft()

    async def limit_rate(self) -> None:
        """Records a message of the peer, and sleeps while it has sent more than MAX_RATE in RATE_SECONDS."""
        self._read_times.append(time.monotonic())
        if len(self._read_times) > MAX_RATE:
            await asyncio.sleep(self._read_times.popleft() + RATE_SECONDS - time.monotonic())
