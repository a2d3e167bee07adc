"""Minimal HTTP/1.1 connections for bulk data: no avoidable copies, and no objects per header.

Transfers of small objects are limited by the interpreter, not by the network: a GET of 16 KiB costs 0.31 ms
of CPU with `http.client` and 0.1 ms with this. Bodies may have a Content-Length, be chunked, or end with the
connection.
"""

from __future__ import annotations

import base64
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from path_mapping.stores.access import Proxy

if TYPE_CHECKING:
    import ssl

# Bytes of the head of a response.
LONGEST_HEAD = 64 << 10
# Interim responses before a response, and lines after a chunked body.
MOST_INTERIM = MOST_TRAILERS = 100
# Seconds; max. wait for a connection.
LONGEST_CONNECT = 20.0
# Bytes of a body that TLS sends together with the head: a copy costs less than a second call.
JOINED = 64 << 10
# Bytes per second, averaged over the stall timeout; a slower connection fails.
LOWEST_RATE = 4096.0

Bytes = Union[bytes, bytearray, memoryview]
_HEX = re.compile(rb"[0-9A-Fa-f]{1,16}")
_STATUS = re.compile(rb"[1-9][0-9]{2}")
_LENGTH = re.compile(rb"[0-9]{1,18}")


class ConnectionFailed(Exception):
    """The connection failed. `stale`: it had been used before, and the server closed it in the meantime."""

    def __init__(self, message: str, stale: bool = False) -> None:
        super().__init__(message)
        self.stale = stale


class Origin(NamedTuple):
    """A server: `secure` means https."""

    host: str
    port: int
    secure: bool


class Response(NamedTuple):
    """The head of a response.

    Header names are in lower case; `length` is in bytes, None without a Content-Length; `closes`: the
    connection cannot be used again.
    """

    status: int
    headers: dict[bytes, bytes]
    length: int | None
    chunked: bool
    closes: bool

    def text(self, name: str) -> str:
        """Returns the value of a header, empty if it is missing."""
        return self.headers.get(name.encode("ascii"), b"").decode("latin-1")


class HttpConnection:
    """A connection for one request after another, used by one thread.

    It fails after `stall` seconds without progress, or below the lowest rate. Received data passes through
    `buffer`. Every method raises `ConnectionFailed`, after which the connection must be closed.
    """

    def __init__(
        self,
        origin: Origin,
        context: ssl.SSLContext | None,
        stall: float,
        buffer: bytearray,
        proxy: Proxy | None = None,
    ) -> None:
        self._buffer, self._view = buffer, memoryview(buffer)
        self._start = self._end = 0
        self._responses = 0
        self._watched, self._arrived = 0.0, 0
        self._stall = stall
        try:
            self._socket = _connected(origin, context, stall, proxy)
        except OSError as error:
            server = f"{origin.host}:{origin.port}" + (
                f" by the proxy {proxy.host}:{proxy.port}" if proxy else ""
            )
            raise ConnectionFailed(f"no connection to {server}: {_reason(error)}") from error
        self._plain = context is None

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    def shut(self) -> None:
        """Makes the current and all further calls fail; for other threads.

        Not `SSLSocket.shutdown`, which drops the TLS layer first: a thread that reads at that moment would
        take ciphertext for the body.
        """
        try:
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        except OSError:
            return  # already closed

    def send(self, head: bytes, body: Bytes = b"") -> None:
        """Sends a request, or a piece of one."""
        self._start = self._end = 0
        self._watched = 0.0
        try:
            if self._plain and len(body):
                sent = self._socket.sendmsg([head, body])
                if sent < len(head):
                    self._socket.sendall(head[sent:])
                    sent = len(head)
                if sent - len(head) < len(body):
                    self._socket.sendall(memoryview(body)[sent - len(head) :])
            elif len(body) <= JOINED:
                self._socket.sendall(head + body)
            else:
                self._socket.sendall(head)
                self._socket.sendall(body)
        except OSError as error:
            raise self._broken("sending", error) from error

    def response(self) -> Response:
        """Reads the head of the next response; interim responses (1xx) are skipped."""
        for _ in range(MOST_INTERIM):
            end = self._head_end()
            lines = bytes(self._view[self._start : end]).split(b"\r\n")
            self._start = end + 4
            parsed = _parsed(lines)
            if parsed.status >= 200:
                self._responses += 1
                return parsed
        raise ConnectionFailed(f"{MOST_INTERIM} interim responses, and no other")

    def _head_end(self) -> int:
        while True:
            end = self._buffer.find(b"\r\n\r\n", self._start, self._end)
            if end >= 0:
                return end
            if self._end - self._start > LONGEST_HEAD or self._end == len(self._view):
                raise ConnectionFailed("the head of the response is too long")
            self._end += self._receive(self._end, len(self._view) - self._end, False)

    def body(self, response: Response) -> Iterator[memoryview]:
        """Yields the body of the response in pieces, each valid until the next; fails if it ends early."""
        if response.chunked:
            yield from self._chunks()
            return
        left = response.length
        if left is None:
            yield from self._until_the_end()
            return
        if self._start + left <= len(self._view):  # in one piece
            self._end += self._fill(self._end, left - (self._end - self._start))
            piece = self._view[self._start : self._start + left]
            self._start += left
            if left:
                yield piece
            return
        if self._end > self._start:
            piece = self._view[self._start : self._end]
            left -= len(piece)
            self._start = self._end = 0
            yield piece
        while left:
            received = self._fill(0, min(left, len(self._view)))
            left -= received
            yield self._view[:received]

    def _fill(self, at: int, size: int) -> int:
        """Receives so many bytes into the buffer; a call to TLS returns one record of at most 16 KiB."""
        received = 0
        while received < size:
            received += self._receive(at + received, size - received, True)
        return received

    def _until_the_end(self) -> Iterator[memoryview]:
        if self._end > self._start:
            yield self._view[self._start : self._end]
        while True:
            received = self._receive(0, len(self._view), False, may_end=True)
            if not received:
                return
            yield self._view[:received]

    def _chunks(self) -> Iterator[memoryview]:
        size = self._chunk_size()
        while size:
            if self._start == self._end:
                self._start, self._end = 0, self._receive(0, len(self._view), False)
            piece = self._view[self._start : min(self._end, self._start + size)]
            self._start += len(piece)
            size -= len(piece)
            yield piece
            if not size:
                if self._text_line():
                    raise ConnectionFailed("a chunk of the response is longer than it says")
                size = self._chunk_size()
        for _ in range(MOST_TRAILERS):
            if not self._text_line():
                return
        raise ConnectionFailed(f"more than {MOST_TRAILERS} lines follow the response")

    def _chunk_size(self) -> int:
        line = self._text_line()
        digits = line.split(b";")[0].strip()
        if not _HEX.fullmatch(digits):  # `int` would take a sign, too
            raise ConnectionFailed(f"the response has a chunk of length {line[:20]!r}")
        return int(digits, 16)

    def _text_line(self) -> bytes:
        taken: list[bytes] = []
        while True:
            end = self._buffer.find(b"\n", self._start, self._end)
            taken.append(bytes(self._view[self._start : self._end if end < 0 else end]))
            if end >= 0:
                self._start = end + 1
                return b"".join(taken).rstrip(b"\r")
            if sum(map(len, taken)) > LONGEST_HEAD:
                raise ConnectionFailed("a line of the response is too long")
            self._start, self._end = 0, self._receive(0, len(self._view), False)

    def _receive(self, at: int, size: int, all_of_it: bool, may_end: bool = False) -> int:
        """Receives into the buffer; `all_of_it` waits for the full size, at most for the stall timeout."""
        try:
            if self._plain and all_of_it:
                received = self._socket.recv_into(self._view[at : at + size], size, socket.MSG_WAITALL)
            else:
                received = self._socket.recv_into(self._view[at : at + size], size)
        except OSError as error:
            raise self._broken("receiving", error) from error
        if not received and not may_end:
            stale = self._responses > 0 and self._end == 0
            raise ConnectionFailed("the server closed the connection", stale)
        if received < size:
            self._watch(received)
        return received

    def _watch(self, received: int) -> None:
        """Fails if less than the lowest rate arrived during the stall timeout."""
        now = time.monotonic()
        if not self._watched:
            self._watched, self._arrived = now, 0
        self._arrived += received
        seconds = now - self._watched
        if seconds >= self._stall:
            if self._arrived < LOWEST_RATE * seconds:
                raise ConnectionFailed(f"receiving: only {self._arrived} bytes in {seconds:.1f} s")
            self._watched, self._arrived = now, 0

    def _broken(self, doing: str, error: OSError) -> ConnectionFailed:
        late: tuple[type[OSError], ...] = (BlockingIOError, TimeoutError, socket.timeout)
        ended: tuple[type[OSError], ...] = (ConnectionResetError, BrokenPipeError)
        if not self._plain:
            import ssl  # slow to import

            late, ended = (*late, ssl.SSLWantReadError), (*ended, ssl.SSLEOFError, ssl.SSLZeroReturnError)
        if isinstance(error, late):
            return ConnectionFailed(f"{doing}: no progress for {self._stall:g} s")
        gone = isinstance(error, ended)
        return ConnectionFailed(f"{doing}: {_reason(error)}", gone and self._responses > 0 and self._end == 0)


class OpenConnections:
    """All connections of a process; `shut` makes them fail in all threads."""

    def __init__(self) -> None:
        self._connections: set[HttpConnection] = set()
        self._lock = threading.Lock()
        self.shut_down = False

    def add(self, connection: HttpConnection) -> None:
        """Adds a new connection; after `shut` it fails at once."""
        with self._lock:
            self._connections.add(connection)
            if self.shut_down:
                connection.shut()

    def drop(self, connection: HttpConnection) -> None:
        """Closes a connection."""
        with self._lock:
            self._connections.discard(connection)
        connection.close()

    def shut(self) -> None:
        """Makes every call on a connection fail, now and from now on."""
        with self._lock:
            self.shut_down = True
            for connection in self._connections:
                connection.shut()


def _connected(
    origin: Origin, context: ssl.SSLContext | None, stall: float, proxy: Proxy | None
) -> socket.socket:
    to = (origin.host, origin.port) if proxy is None else (proxy.host, proxy.port)
    # As bytes: for a str Python loads the codec "idna", which takes longer than connecting.
    host: Any = to[0].encode() if to[0].isascii() else to[0]
    raw = socket.create_connection((host, to[1]), min(stall, LONGEST_CONNECT))
    try:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if proxy is not None:
            _tunnel(raw, origin, proxy)
        # The ssl module needs the timeout of Python's sockets.
        if context is not None:
            raw.settimeout(stall)
            # A connection that ends without the end of TLS is an error, not the end of the body.
            return context.wrap_socket(raw, server_hostname=origin.host, suppress_ragged_eofs=False)
        # A timeout of the kernel, in place of Python's, saves a poll() before each call.
        raw.settimeout(None)
        limit = struct.pack("ll", int(stall), int(stall % 1 * 1_000_000))
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    except BaseException:
        raw.close()
        raise
    return raw


def _tunnel(raw: socket.socket, origin: Origin, proxy: Proxy) -> None:
    """Makes the proxy connect to the server (RFC 9110, "CONNECT"). Raises `OSError` if it refuses."""
    shown = f"[{origin.host}]" if ":" in origin.host else origin.host
    lines = [f"CONNECT {shown}:{origin.port} HTTP/1.1", f"Host: {shown}:{origin.port}"]
    if proxy.user or proxy.password:
        login = base64.b64encode(f"{proxy.user}:{proxy.password}".encode()).decode("ascii")
        lines.append(f"Proxy-Authorization: Basic {login}")
    raw.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        # Byte by byte: everything after the head comes from the server.
        byte = raw.recv(1)
        if not byte or len(head) > LONGEST_HEAD:
            raise ConnectionError("the proxy gave no answer to CONNECT")
        head += byte
    status = head.split(b"\r\n", 1)[0].split(b" ", 2)[1:2]
    if status != [b"200"]:
        raise ConnectionError(f"the proxy refused with HTTP {b''.join(status).decode('latin-1')[:10]}")


def _parsed(lines: list[bytes]) -> Response:
    first = lines[0].split(b" ", 2)
    if len(first) < 2 or not first[0].startswith(b"HTTP/1.") or not _STATUS.fullmatch(first[1]):
        raise ConnectionFailed(f"not an HTTP response, it begins with {lines[0][:40]!r}")
    headers: dict[bytes, bytes] = {}
    for line in lines[1:]:
        name, _, value = line.partition(b":")
        headers[name.strip().lower()] = value.strip()
    status = int(first[1])
    chunked = headers.get(b"transfer-encoding", b"").lower() == b"chunked"
    connection = headers.get(b"connection", b"").lower()
    closes = connection == b"close" or (first[0] == b"HTTP/1.0" and connection != b"keep-alive")
    length: int | None = None
    text = headers.get(b"content-length")
    if text is not None:
        if not _LENGTH.fullmatch(text):
            raise ConnectionFailed(f"the response has the length {text[:20]!r}")
        length = int(text)
    elif status in (204, 304):
        length = 0
    return Response(status, headers, length, chunked, closes or (length is None and not chunked))


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
