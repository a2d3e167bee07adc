"""TCP connections of the channel: listening, mutual authentication, and authenticated messages."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Container, Iterator
from typing import Any

from ma_boot.node.observe.channel import protocol
from ma_boot.node.observe.channel.protocol import Address, Session

# Seconds of silence after which the kernel sends keepalive probes.
KEEPALIVE_SECONDS = 10
# Seconds without an acknowledgement of the other machine until the kernel breaks the connection.
UNACKNOWLEDGED_SECONDS = 4
# Connections that the kernel holds until they are accepted.
BACKLOG = 128

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Dropped(Exception):
    """Authentication failed or a message is invalid; close the connection without replying."""


BROKEN = (Dropped, OSError, EOFError, asyncio.TimeoutError)


class PeerConnection:
    """Authenticated connection: messages with their proofs."""

    def __init__(self, session: Session, own: str, other: str, streams: Streams) -> None:
        self._session, self._own, self._other = session, own, other
        self._reader, self._writer = streams
        self._read = self._written = 0

    async def read(self) -> bytes:
        """Returns the next message.

        Raises:
            Dropped: the message is too long or its proof is wrong.
            EOFError: the other machine has closed the connection.
        """
        (length,) = protocol.LENGTH.unpack(await self._reader.readexactly(protocol.LENGTH.size))
        if length > protocol.MOST_BYTES:
            raise Dropped
        content = await self._reader.readexactly(length + protocol.PROOF)
        self._read += 1
        if not self._session.is_proved(content[length:], self._other, self._read, content[:length]):
            raise Dropped
        return content[:length]

    def write(self, data: bytes) -> None:
        """Queues a message for sending."""
        self._written += 1
        proof = self._session.proof(self._own, self._written, data)
        self._writer.write(protocol.LENGTH.pack(len(data)) + data + proof)


async def greet_as_server(streams: Streams, key: bytes, nodes: Container[int]) -> Session:
    """Authenticates a client as one of the nodes; proves itself only after the client has.

    Raises:
        Dropped: the client has not proved that it knows the key, or is none of the nodes.
    """
    reader, writer = streams
    nonce = os.urandom(protocol.NONCE)
    writer.write(nonce)
    greeting = await reader.readexactly(protocol.HELLO.size + protocol.PROOF)
    session = protocol.read_hello(greeting, key, nonce)
    if session is None or session.node not in nodes:
        raise Dropped
    writer.write(session.proof("server", 0))
    return session


async def greet_as_client(streams: Streams, key: bytes, node: int) -> Session:
    """Authenticates as `node` and checks the proof of the server.

    Raises:
        Dropped: the server has not proved that it knows the key.
    """
    reader, writer = streams
    nonce = await reader.readexactly(protocol.NONCE)
    session = Session(key, node, nonce, os.urandom(protocol.NONCE))
    writer.write(protocol.hello(session))
    if not session.is_proved(await reader.readexactly(protocol.PROOF), "server", 0):
        raise Dropped
    return session


@contextlib.asynccontextmanager
async def open_streams(opening: Awaitable[Streams]) -> AsyncIterator[Streams]:
    """Streams of a connection that is closed at the end of the block.

    Keepalive probes and TCP_USER_TIMEOUT detect a machine that has disappeared without closing it (tcp(7)).
    """
    reader, writer = await opening
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
        # The kernel takes milliseconds.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * UNACKNOWLEDGED_SECONDS)
    try:
        yield reader, writer
    finally:
        writer.close()


def open_listener(own: Address) -> tuple[socket.socket | None, str | None]:
    """Listens at this node's own address, or at all addresses if this machine does not have it.

    Returns the socket, or None and the reason for the user.
    """
    problem = ""
    for family, address in _candidate_addresses(own):
        try:
            listener = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:  # a kernel without IPv6
            problem = f"{error.strerror or error}: port {own.port}"
            continue
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind(address)
            listener.listen(BACKLOG)
            listener.setblocking(False)
            return listener, None
        except OSError as error:
            listener.close()
            problem = f"{error.strerror or error}: port {own.port}"
            # Other errors, such as a port in use, would be the same at all addresses.
            if error.errno != errno.EADDRNOTAVAIL:
                break
    return None, problem


def _candidate_addresses(own: Address) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Address families and addresses to listen at: the node's own, then all addresses of the machine.

    A socket for all IPv6 addresses accepts IPv4 as well. Names are not resolved: DNS may not answer.
    """
    if own.host:
        with contextlib.suppress(socket.gaierror):
            flags = socket.AI_PASSIVE | socket.AI_NUMERICHOST
            for entry in socket.getaddrinfo(own.host, own.port, type=socket.SOCK_STREAM, flags=flags):
                yield entry[0], entry[4]
    yield socket.AF_INET6, ("::", own.port)
    yield socket.AF_INET, ("", own.port)
