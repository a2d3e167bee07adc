"""The sockets of a channel: where a node listens, how it reaches another one, and how both read."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import time
from typing import Any, Awaitable, Iterator, NamedTuple, Optional, Tuple

from ma_boot.channel.protocol import Address

WAITING = 128  # connections that the kernel keeps until they are accepted


class Dropped(Exception):
    """This connection is not worth an answer."""


def listener(own: Address) -> Tuple[Optional[socket.socket], Optional[str]]:
    """A socket at this node's own address, or at all if it is none of this machine; or why there is none."""
    problem = ""
    for family, address in _places(own):
        try:
            found = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:  # a kernel without IPv6
            problem = f"{error.strerror or error}: port {own.port}"
            continue
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            found.bind(address)
            found.listen(WAITING)
            found.setblocking(False)
            return found, None
        except OSError as error:
            found.close()
            problem = f"{error.strerror or error}: port {own.port}"
            if error.errno != errno.EADDRNOTAVAIL:
                break
    return None, problem


def _places(own: Address) -> Iterator[Tuple[int, Tuple[Any, ...]]]:
    """Where a node may listen, with the family: at its own address, then at all addresses of the machine.

    A socket for all addresses of IPv6 takes those of IPv4 as well. No name is looked up.
    """
    if own.host:
        with contextlib.suppress(socket.gaierror):
            flags = socket.AI_PASSIVE | socket.AI_NUMERICHOST
            for found in socket.getaddrinfo(own.host, own.port, type=socket.SOCK_STREAM, flags=flags):
                yield found[0], found[4]
    yield socket.AF_INET6, ("::", own.port)
    yield socket.AF_INET, ("", own.port)


async def connected(loop: asyncio.AbstractEventLoop, to: Address, seconds: float) -> Optional[socket.socket]:
    """A connection to the first address of a node that answers within so many seconds; None if none does."""
    until = time.monotonic() + seconds
    try:  # at once: the threads that look up names may all be waiting for a name server
        places = socket.getaddrinfo(to.host, to.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        places = await loop.getaddrinfo(to.host, to.port, type=socket.SOCK_STREAM)
    for family, kind, number, _, address in places:
        connection = socket.socket(family, kind, number)
        try:
            connection.setblocking(False)
            left = max(0.0, until - time.monotonic())
            await asyncio.wait_for(loop.sock_connect(connection, address), left)
            return connection
        except (OSError, asyncio.TimeoutError):
            connection.close()
        except BaseException:  # it is cancelled
            connection.close()
            raise
    return None


class Wire(NamedTuple):
    """A connection, read by the number of bytes."""

    loop: asyncio.AbstractEventLoop
    connection: socket.socket

    async def read(self, size: int) -> bytes:
        """So many bytes; raises `Dropped` if the other side has closed before."""
        found = bytearray()
        while len(found) < size:
            piece = await self.loop.sock_recv(self.connection, size - len(found))
            if not piece:
                raise Dropped
            found += piece
        return bytes(found)

    def write(self, data: bytes) -> Awaitable[None]:
        """Sends all of it."""
        return self.loop.sock_sendall(self.connection, data)
