"""Minimal HTTP/1.1 connections for bulk data, which never block: no avoidable copies, no objects per header.

Transfers of small objects are limited by the interpreter, not by the network: a GET of 16 KiB costs 0.31 ms
of CPU with `http.client`. Bodies may have a Content-Length, be chunked, or end with the connection.
"""

from __future__ import annotations

import re
import socket
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from path_mapping.stores.waits import READ, WRITE, NonBlockingSocket, ready, until_ready

if TYPE_CHECKING:
    import ssl

# Bytes of the head of a response.
LONGEST_HEAD = 64 << 10
# Interim responses before a response, and lines after a chunked body.
MOST_INTERIM = MOST_TRAILERS = 100
# Bytes of a body that TLS sends together with the head: a copy costs less than a second call.
JOINED = 64 << 10
# Bytes of TLS that are received by one call.
RECEIVED = 256 << 10
# Bytes per second, averaged over the stall timeout; a slower connection fails.
LOWEST_RATE = 4096.0

Bytes = Union[bytes, bytearray, memoryview]
Piece = Union[bytes, memoryview]
_HEX = re.compile(rb"[0-9A-Fa-f]{1,16}")
_STATUS = re.compile(rb"[1-9][0-9]{2}")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_INTERIM = re.compile(rb"HTTP/1\.\d 1\d\d")


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


class Rooms:
    """Memory that all connections of an exchange receive into, each for a moment only.

    `addresses` are those of servers, with the time of `time.monotonic` at which they were looked up.
    """

    def __init__(self) -> None:
        self.addresses: dict[tuple[str, int], tuple[float, list[tuple[int, Any]]]] = {}
        self.head = memoryview(bytearray(LONGEST_HEAD))
        self._cipher: memoryview | None = None

    @property
    def cipher(self) -> memoryview:
        """For TLS before it is decrypted."""
        if self._cipher is None:
            self._cipher = memoryview(bytearray(RECEIVED))
        return self._cipher


class _Tls:
    """TLS in memory: received bytes go in, bytes to send come out. Pure."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        import ssl  # slow to import

        self.wants_read = ssl.SSLWantReadError
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.session = context.wrap_bio(self.incoming, self.outgoing, server_hostname=host)

    def read(self, view: memoryview) -> int:
        """Decrypts what has been received; 0 after the end. Raises `BlockingIOError` if nothing is there.

        A connection that ends without the end of TLS is an error, not the end of the body.
        """
        size, incoming, session = 0, self.incoming, self.session
        try:
            # Not to the exception, if nothing is left: it takes as long as a small record.
            while size < len(view) and (incoming.pending or session.pending() or incoming.eof):
                more: Any = session.read(len(view) - size, view[size:] if size else view)
                if not more:
                    return size
                size += more
        except self.wants_read:
            pass
        if not size:
            raise BlockingIOError
        return size

    def encrypted(self, data: Bytes) -> Bytes:
        """Returns the data as they are to be sent."""
        left = memoryview(data)
        while left:
            left = left[self.session.write(left) :]
        return self.outgoing.read()


class HttpConnection:
    """A connection for one request after another, used by one task at a time; see `connecting`.

    It fails after `stall` seconds without progress, or below the lowest rate. Every method raises
    `ConnectionFailed`, after which the connection must be closed.
    """

    def __init__(self, line: NonBlockingSocket, stall: float, rooms: Rooms) -> None:
        self._line, self._stall, self._rooms = line, stall, rooms
        self._tls: _Tls | None = None
        # Received, and not yet returned: from `_at` on.
        self._have, self._at = b"", 0
        self._responses = 0
        # Bytes that are left of the body or its chunk; None until the end of the connection.
        self._left: int | None = 0
        self._chunked = False
        self._watched, self._arrived = 0.0, 0

    def close(self) -> None:
        """Closes the socket."""
        self._line.socket.close()

    @property
    def is_read(self) -> bool:
        """True after the last byte of a body: the next request may be sent."""
        return self._left == 0 and not self._chunked and self._at == len(self._have)

    async def send(self, head: bytes, body: Bytes = b"") -> None:
        """Sends a request, or a piece of one; fails early if the server refuses it before its end."""
        self._watched = 0.0
        if head:
            self._have, self._at = b"", 0
        if self._tls is None:
            await self._send([head, body] if len(body) else [head])
        elif len(body) <= JOINED:
            await self._send([self._tls.encrypted(head + body if len(body) else head)])
        else:
            await self._send([self._tls.encrypted(head)] if head else [])
            await self._send([self._tls.encrypted(body)])

    async def _send(self, pieces: list[Bytes]) -> None:
        waiting = False
        while pieces:
            try:
                sent = self._line.socket.sendmsg(pieces)
            except BlockingIOError:
                sent, waiting = 0, True
            except OSError as error:
                raise self._broken("sending", error) from error
            while pieces and sent >= len(pieces[0]):
                sent -= len(pieces.pop(0))
            if pieces and sent:
                pieces[0] = memoryview(pieces[0])[sent:]
            if pieces and waiting:
                await self._wait_to_send()
                waiting = False

    async def _wait_to_send(self) -> None:
        """Waits until more can be sent; fails if an error is the response already, which is kept."""
        listens = 0 if self._have else READ
        came = await ready(self._line, WRITE | listens, self._stall)
        if not came:
            raise ConnectionFailed(f"sending: no progress for {self._stall:g} s")
        if not came & listens:
            return
        try:
            size = self._read(self._rooms.head)
        except BlockingIOError:
            return
        except OSError as error:
            raise self._broken("sending", error) from error
        if not size:
            raise self._ended()
        self._have = bytes(self._rooms.head[:size])
        while _INTERIM.match(self._have) and b"\r\n\r\n" in self._have:
            self._have = self._have.partition(b"\r\n\r\n")[2]
        if self._have[9:10] >= b"3":
            raise ConnectionFailed("sending: the server refused before the end")

    async def response(self, bodiless: bool = False) -> Response:
        """Reads the head of the next response; interim responses (1xx) are skipped.

        `bodiless`: it has no body, whatever its head says, as that to a HEAD.
        """
        for _ in range(MOST_INTERIM):
            parsed = parse_head(await self._until(b"\r\n\r\n", "the head of the response is too long"))
            if parsed.status >= 200:
                self._responses += 1
                self._chunked = parsed.chunked and not bodiless
                self._left = 0 if bodiless or parsed.chunked else parsed.length
                return parsed
        raise ConnectionFailed(f"{MOST_INTERIM} interim responses, and no other")

    async def _until(self, mark: bytes, problem: str) -> bytes:
        """Returns what comes before the mark, which is skipped; fails with this problem if it is far away."""
        while True:
            end = self._have.find(mark, self._at)
            if end >= 0:
                begin, self._at = self._at, end + len(mark)
                return self._have[begin:end]
            if len(self._have) - self._at > LONGEST_HEAD:
                raise ConnectionFailed(problem)
            await self._more()

    async def _more(self) -> None:
        """Receives more of a head, or of the lines in a chunked body."""
        rest = self._have[self._at :]
        while True:
            try:
                size = self._read(self._rooms.head)
                self._have, self._at = rest + bytes(self._rooms.head[:size]), 0
                break
            except BlockingIOError:
                await self._wait()
            except OSError as error:
                raise self._broken("receiving", error) from error
        if not size:
            raise self._ended()

    async def piece(self, room: memoryview) -> Piece:
        """Returns the next piece of the body, empty at its end; fails if it ends early.

        A piece is received into the room, and fills it if the body is longer.
        """
        if self._chunked:
            return await self._piece_of_chunk(room)
        left = self._left
        if left == 0:
            return b""
        piece: Piece = self._kept(left)
        if not piece:
            wanted = len(room) if left is None else min(left, len(room))
            piece = room[: await self._receive(room[:wanted], left is None)]
        self._left = None if left is None else left - len(piece)
        if left is None and not piece:
            self._left = 0
        return piece

    def _kept(self, most: int | None) -> bytes:
        """Returns what was received together with the head."""
        end = len(self._have) if most is None else min(self._at + most, len(self._have))
        piece = self._have[self._at : end]
        self._at = end
        if end == len(self._have):
            self._have, self._at = b"", 0
        return piece

    async def _piece_of_chunk(self, room: memoryview) -> Piece:
        if not self._left:
            self._left = await self._chunk_size()
            if not self._left:
                await self._skip_trailers()
                self._chunked = False
                return b""
        if self._at == len(self._have):
            await self._more()
        piece = self._kept(min(self._left, len(room)))
        self._left -= len(piece)
        if not self._left and await self._text_line():
            raise ConnectionFailed("a chunk of the response is longer than it says")
        return piece

    async def _chunk_size(self) -> int:
        line = await self._text_line()
        digits = line.split(b";")[0].strip()
        if not _HEX.fullmatch(digits):  # `int` would take a sign, too
            raise ConnectionFailed(f"the response has a chunk of length {line[:20]!r}")
        return int(digits, 16)

    async def _skip_trailers(self) -> None:
        for _ in range(MOST_TRAILERS):
            if not await self._text_line():
                return
        raise ConnectionFailed(f"more than {MOST_TRAILERS} lines follow the response")

    async def _text_line(self) -> bytes:
        return (await self._until(b"\n", "a line of the response is too long")).rstrip(b"\r")

    async def _receive(self, room: memoryview, may_end: bool) -> int:
        """Fills the room; `may_end`: or as far as something comes."""
        done = 0
        while done < len(room):
            try:
                received = self._read(room[done:] if done else room)
            except BlockingIOError:
                await self._wait()
                continue
            except OSError as error:
                raise self._broken("receiving", error) from error
            if may_end:
                return received
            if not received:
                raise self._ended()
            done += received
            self._arrived += received
        return done

    def _read(self, room: memoryview) -> int:
        """Reads what is there; 0 at the end of the connection. Raises `BlockingIOError`, and `OSError`."""
        tls, raw = self._tls, self._line.socket
        if tls is None:
            return raw.recv_into(room)
        while True:
            try:
                return tls.read(room)
            except BlockingIOError:
                self._take_in(tls, raw)

    def _take_in(self, tls: _Tls, raw: socket.socket) -> None:
        size = raw.recv_into(self._rooms.cipher)
        if size:
            tls.incoming.write(self._rooms.cipher[:size])
        else:
            tls.incoming.write_eof()

    async def _wait(self) -> None:
        """Waits for data. Fails if less than the lowest rate arrived during the stall timeout."""
        now = time.monotonic()
        if not self._watched:
            self._watched, self._arrived = now, 0
        seconds = now - self._watched
        if seconds >= self._stall:
            if self._arrived < LOWEST_RATE * seconds:
                raise ConnectionFailed(f"receiving: only {self._arrived} bytes in {seconds:.1f} s")
            self._watched, self._arrived = now, 0
        if not await ready(self._line, READ, self._stall):
            raise ConnectionFailed(f"receiving: no progress for {self._stall:g} s")

    def _ended(self) -> ConnectionFailed:
        return ConnectionFailed("the server closed the connection", self._is_unanswered)

    @property
    def _is_unanswered(self) -> bool:
        """True before the first byte of a later response: the server may have closed an idle connection."""
        return self._responses > 0 and self._left == 0 and not self._have

    def _broken(self, doing: str, error: OSError) -> ConnectionFailed:
        ended: tuple[type[OSError], ...] = (ConnectionResetError, BrokenPipeError)
        if self._tls is not None:
            import ssl  # slow to import

            ended = (*ended, ssl.SSLEOFError, ssl.SSLZeroReturnError)
        return ConnectionFailed(
            f"{doing}: {reason_of(error)}", isinstance(error, ended) and self._is_unanswered
        )

    async def shake_hands(self, context: ssl.SSLContext, host: str) -> None:
        """Begins TLS. Raises `OSError`."""
        tls = _Tls(context, host)
        done = False
        while not done:
            try:
                tls.session.do_handshake()
                done = True
            except tls.wants_read:
                pass
            finally:  # an alert, too
                out: Bytes = tls.outgoing.read()
                if out:
                    self._line.socket.sendall(out)
            while not done:
                try:
                    self._take_in(tls, self._line.socket)
                    break
                except BlockingIOError:
                    await until_ready(self._line, READ, self._stall)
        self._tls = tls


def parse_head(head: bytes) -> Response:
    """Returns the head of a response. Raises `ConnectionFailed` if it is none."""
    lines = head.split(b"\r\n")
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


def reason_of(error: OSError) -> str:
    """Returns the words of an error."""
    return error.strerror or str(error) or type(error).__name__
