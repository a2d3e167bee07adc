"""Opens connections without blocking: addresses, the tunnel of a proxy, TLS."""

from __future__ import annotations

import base64
import errno
import math
import os
import re
import socket
import time
from typing import TYPE_CHECKING, Any

from path_mapping.stores.access import Proxy
from path_mapping.stores.http_connection import (
    LONGEST_HEAD,
    ConnectionFailed,
    HttpConnection,
    Origin,
    Rooms,
    reason_of,
)
from path_mapping.stores.waits import READ, WRITE, NonBlockingSocket, elsewhere, until_ready

if TYPE_CHECKING:
    import ssl

# Seconds; max. wait for a connection.
LONGEST_CONNECT = 20.0
# Seconds for which the addresses of a server are kept.
ADDRESS_SECONDS = 5.0


async def connect(
    origin: Origin, context: ssl.SSLContext | None, stall: float, rooms: Rooms, proxy: Proxy | None = None
) -> HttpConnection:
    """Opens a connection, by a proxy if there is one. Raises `ConnectionFailed`."""
    to = (origin.host, origin.port) if proxy is None else (proxy.host, proxy.port)
    try:
        line = await _connected(*to, seconds=min(stall, LONGEST_CONNECT), rooms=rooms)
        try:
            line.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if proxy is not None:
                await _tunnel(line, origin, proxy, stall)
            connection = HttpConnection(line, stall, rooms)
            if context is not None:
                await connection.shake_hands(context, origin.host)
            return connection
        except BaseException:
            line.socket.close()
            raise
    except OSError as error:
        server = f"{origin.host}:{origin.port}" + (
            f" by the proxy {proxy.host}:{proxy.port}" if proxy else ""
        )
        raise ConnectionFailed(f"no connection to {server}: {reason_of(error)}") from error


async def _connected(host: str, port: int, seconds: float, rooms: Rooms) -> NonBlockingSocket:
    """Returns a connection to the first address that answers."""
    problem: OSError = OSError(errno.EADDRNOTAVAIL, f"{host} has no address")
    for family, address in await _addresses(host, port, rooms):
        line = NonBlockingSocket(socket.socket(family, socket.SOCK_STREAM))
        try:
            code = line.socket.connect_ex(address)
            if code == errno.EINPROGRESS:
                await until_ready(line, WRITE, seconds)
                code = line.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code == 0:
                return line
            problem = OSError(code, os.strerror(code))
        except OSError as error:
            problem = error
        except BaseException:
            line.socket.close()
            raise
        line.socket.close()
    raise problem


async def _addresses(host: str, port: int, rooms: Rooms) -> list[tuple[int, Any]]:
    """Looks the addresses of a server up, once for connections that are opened together."""
    if re.fullmatch(r"[\d.]+", host):  # nothing to look up
        return [(socket.AF_INET, (host, port))]
    # As bytes: for a str Python loads the codec "idna", which takes longer than connecting.
    name: Any = host.encode() if host.isascii() else host

    def look_up() -> list[tuple[int, Any]]:
        at, known = rooms.addresses.get((host, port), (-math.inf, []))
        if time.monotonic() - at > ADDRESS_SECONDS:
            found = socket.getaddrinfo(name, port, 0, socket.SOCK_STREAM)
            known = [(family, address) for family, _, _, _, address in found]
            rooms.addresses[host, port] = time.monotonic(), known
        return known

    return await elsewhere(look_up, slow=True)


async def _tunnel(line: NonBlockingSocket, origin: Origin, proxy: Proxy, stall: float) -> None:
    """Makes the proxy connect to the server (RFC 9110, "CONNECT"). Raises `OSError` if it refuses."""
    shown = f"[{origin.host}]" if ":" in origin.host else origin.host
    lines = [f"CONNECT {shown}:{origin.port} HTTP/1.1", f"Host: {shown}:{origin.port}"]
    if proxy.user or proxy.password:
        login = base64.b64encode(f"{proxy.user}:{proxy.password}".encode()).decode("ascii")
        lines.append(f"Proxy-Authorization: Basic {login}")
    line.socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        try:
            # Byte by byte: everything after the head comes from the server.
            byte = line.socket.recv(1)
        except BlockingIOError:
            await until_ready(line, READ, stall)
            continue
        if not byte or len(head) > LONGEST_HEAD:
            raise ConnectionError("the proxy gave no answer to CONNECT")
        head += byte
    status = head.split(b"\r\n", 1)[0].split(b" ", 2)[1:2]
    if status != [b"200"]:
        raise ConnectionError(f"the proxy refused with HTTP {b''.join(status).decode('latin-1')[:10]}")
