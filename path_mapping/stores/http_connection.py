"""One HTTP/1.1 connection, as lean as bulk data needs it: no copy that can be left out, no object per header.

Written because the transfers are limited by the interpreter, not by the network: for a 16 KiB object,
`http.client` costs 0.31 ms of CPU and this 0.1 ms. It speaks what object stores answer: Content-Length,
chunks, or a body that ends with the connection.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
import time
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Union

LONGEST_HEAD = 64 << 10
LONGEST_CONNECT = 20.0  # seconds
LOWEST_RATE = 4096.0  # bytes per second, for the time of a stall
SENDFILE_PIECE = 1 << 20

Bytes = Union[bytes, bytearray, memoryview]


class LineError(Exception):
    """The connection failed; `stale`: it was used before, and the server had ended it meanwhile."""

    def __init__(self, message: str, stale: bool = False) -> None:
        super().__init__(message)
        self.stale = stale


class Origin(NamedTuple):
    """Whom to connect to."""

    host: str
    port: int
    secure: bool


class Answer(NamedTuple):
    """The head of an answer; names of headers are in lower case."""

    status: int
    headers: Dict[bytes, bytes]
    length: Optional[int]
    chunked: bool
    closes: bool

    def text(self, name: str) -> str:
        """A header's value, empty where there is none."""
        return self.headers.get(name.encode("ascii"), b"").decode("latin-1")


class Line:
    """A connection for one request after the other, used by one thread.

    `stall` seconds without anything moved, or with less than the lowest rate, are a failure. Every trouble is
    a `LineError`, after which the line is of no more use.
    """

    def __init__(
        self, origin: Origin, context: Optional[ssl.SSLContext], stall: float, buffer: bytearray
    ) -> None:
        self._view = memoryview(buffer)
        self._start = self._end = 0
        self._answered = 0
        self._watched, self._came = 0.0, 0
        self._stall = stall
        try:
            self._socket = _connected(origin, context, stall)
        except OSError as error:
            raise LineError(f"no connection to {origin.host}:{origin.port}: {_said(error)}") from error
        self._plain = context is None

    def close(self) -> None:
        """Ends it."""
        self._socket.close()

    def shut(self) -> None:
        """Ends it under the hands of the thread that uses it, whose call then fails."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it has ended already

    def send(self, head: bytes, body: Bytes = b"") -> None:
        """Sends a request, or its beginning."""
        self._start = self._end = 0
        self._watched = 0.0
        try:
            if not len(body):
                self._socket.sendall(head)
            elif self._plain:
                sent = self._socket.sendmsg([head, body])
                if sent < len(head):
                    self._socket.sendall(head[sent:])
                    sent = len(head)
                if sent - len(head) < len(body):
                    self._socket.sendall(memoryview(body)[sent - len(head) :])
            else:
                self._socket.sendall(head)
                self._socket.sendall(body)
        except OSError as error:
            raise self._broken("sending", error) from error

    def send_file(self, file: int, offset: int, size: int, sent: Callable[[int], None]) -> int:
        """Sends a part of a file as the rest of the request; returns how much of it there was."""
        done = 0
        while done < size:
            piece = min(SENDFILE_PIECE, size - done)
            try:
                moved = self._piece(file, offset + done, piece)
            except OSError as error:
                raise self._broken("sending", error) from error
            if not moved:
                break
            done += moved
            sent(moved)
        return done

    def _piece(self, file: int, offset: int, size: int) -> int:
        if self._plain:
            return os.sendfile(self._socket.fileno(), file, offset, size)
        piece = os.pread(file, min(size, len(self._view)), offset)
        self._socket.sendall(piece)
        return len(piece)

    def answer(self) -> Answer:
        """The head of the next answer."""
        while True:
            end = self._head_end()
            lines = bytes(self._view[self._start : end]).split(b"\r\n")
            self._start = end + 4
            parsed = _parsed(lines)
            if parsed.status >= 200:
                self._answered += 1
                return parsed

    def _head_end(self) -> int:
        while True:
            head = bytes(self._view[self._start : self._end])
            found = head.find(b"\r\n\r\n")
            if found >= 0:
                return self._start + found
            if len(head) > LONGEST_HEAD or self._end == len(self._view):
                raise LineError("the answer's head has no end")
            self._end += self._receive(self._end, len(self._view) - self._end, False)

    def body(self, answer: Answer) -> Iterator[memoryview]:
        """The answer's body, in pieces that are valid until the next; fails when it ends early."""
        if answer.chunked:
            yield from self._chunks()
            return
        left = answer.length
        if left is None:
            yield from self._until_the_end()
            return
        if self._start + left <= len(self._view):  # in one piece
            while self._end - self._start < left:
                self._end += self._receive(self._end, left - (self._end - self._start), True)
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
            received = self._receive(0, min(left, len(self._view)), True)
            left -= received
            yield self._view[:received]

    def _until_the_end(self) -> Iterator[memoryview]:
        if self._end > self._start:
            yield self._view[self._start : self._end]
        while True:
            received = self._receive(0, len(self._view), False, may_end=True)
            if not received:
                return
            yield self._view[:received]

    def _chunks(self) -> Iterator[memoryview]:
        while True:
            size = self._chunk_size()
            while size:
                if self._start == self._end:
                    self._start, self._end = 0, self._receive(0, len(self._view), False)
                piece = self._view[self._start : min(self._end, self._start + size)]
                self._start += len(piece)
                size -= len(piece)
                yield piece
                if not size:
                    self._text_line()
                    size = self._chunk_size()
            while self._text_line():
                pass  # trailers
            return

    def _chunk_size(self) -> int:
        line = self._text_line()
        try:
            return int(line.split(b";")[0], 16)
        except ValueError:
            raise LineError(f"a chunk of the answer has the length {line[:20]!r}") from None

    def _text_line(self) -> bytes:
        taken: List[bytes] = []
        while True:
            piece = bytes(self._view[self._start : self._end])
            found = piece.find(b"\n")
            if found >= 0:
                self._start += found + 1
                return b"".join([*taken, piece[:found]]).rstrip(b"\r")
            taken.append(piece)
            if sum(map(len, taken)) > LONGEST_HEAD:
                raise LineError("a line of the answer has no end")
            self._start, self._end = 0, self._receive(0, len(self._view), False)

    def _receive(self, at: int, size: int, all_of_it: bool, may_end: bool = False) -> int:
        """Receives into the buffer; `all_of_it` waits for the whole size, at most as long as a stall."""
        try:
            if self._plain and all_of_it:
                received = self._socket.recv_into(self._view[at : at + size], size, socket.MSG_WAITALL)
            else:
                received = self._socket.recv_into(self._view[at : at + size], size)
        except OSError as error:
            raise self._broken("receiving", error) from error
        if not received and not may_end:
            stale = self._answered > 0 and self._end == 0
            raise LineError("the server ended the connection", stale)
        if received < size:
            self._watch(received)
        return received

    def _watch(self, received: int) -> None:
        """Fails when less than the lowest rate has come for the time of a stall."""
        now = time.monotonic()
        if not self._watched:
            self._watched, self._came = now, 0
        self._came += received
        seconds = now - self._watched
        if seconds >= self._stall:
            if self._came < LOWEST_RATE * seconds:
                raise LineError(f"receiving: only {self._came} bytes came in {seconds:.1f} s")
            self._watched, self._came = now, 0

    def _broken(self, doing: str, error: OSError) -> LineError:
        if isinstance(error, (BlockingIOError, TimeoutError, socket.timeout, ssl.SSLWantReadError)):
            return LineError(f"{doing}: nothing moved for {self._stall:g} s")
        gone = isinstance(
            error, (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
        )
        return LineError(f"{doing}: {_said(error)}", gone and self._answered > 0 and self._end == 0)


def _connected(origin: Origin, context: Optional[ssl.SSLContext], stall: float) -> socket.socket:
    raw = socket.create_connection((origin.host, origin.port), min(stall, LONGEST_CONNECT))
    try:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:  # TLS waits in the library, which needs Python's own timeout
            raw.settimeout(stall)
            return context.wrap_socket(raw, server_hostname=origin.host)
        raw.settimeout(None)  # the kernel's timeout saves a poll() before each call
        limit = struct.pack("ll", int(stall), int(stall % 1 * 1_000_000))
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    except BaseException:
        raw.close()
        raise
    return raw


def _parsed(lines: List[bytes]) -> Answer:
    first = lines[0].split(b" ", 2)
    if len(first) < 2 or not first[0].startswith(b"HTTP/1.") or not first[1].isdigit():
        raise LineError(f"the answer begins with {lines[0][:40]!r}")
    headers: Dict[bytes, bytes] = {}
    for line in lines[1:]:
        name, _, value = line.partition(b":")
        headers[name.strip().lower()] = value.strip()
    status = int(first[1])
    chunked = headers.get(b"transfer-encoding", b"").lower() == b"chunked"
    connection = headers.get(b"connection", b"").lower()
    closes = connection == b"close" or (first[0] == b"HTTP/1.0" and connection != b"keep-alive")
    length: Optional[int] = None
    text = headers.get(b"content-length")
    if text is not None:
        if not text.isdigit():
            raise LineError(f"the answer has the length {text[:20]!r}")
        length = int(text)
    elif status in (204, 304):
        length = 0
    return Answer(status, headers, length, chunked, closes or (length is None and not chunked))


def _said(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
