"""A connection of a client: heads and bodies of requests come in, responses go out."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import struct
from typing import BinaryIO

RECEIVE = 1 << 18
MAX_HEAD = 64 << 10
AT_ONCE = 128 << 10  # bytes; a smaller body is sent together with its head


class Connection:
    """A socket with a receive buffer."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._rest = b""

    def head(self) -> bytes:
        """The head of the next request, without the empty line; empty if the client has disconnected."""
        data, searched = self._rest, 0
        while True:
            end = data.find(b"\r\n\r\n", searched)
            if end >= 0:
                self._rest = data[end + 4 :]
                return data[:end]
            searched = max(0, len(data) - 3)
            piece = self._socket.recv(RECEIVE) if len(data) < MAX_HEAD else b""
            if not piece:
                return b""
            data += piece

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none if the client has disconnected."""
        if self._rest:
            piece, self._rest = self._rest[:size], self._rest[size:]
            return piece
        return self._socket.recv(size)

    def line(self) -> bytes:
        """The next line, without CRLF; empty if the client has disconnected."""
        while b"\r\n" not in self._rest:
            piece = self._socket.recv(RECEIVE) if len(self._rest) < MAX_HEAD else b""
            if not piece:
                return b""
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\r\n")
        return line

    def send(self, data: bytes) -> None:
        """Sends all of the data."""
        self._socket.sendall(data)

    def send_file(self, head: bytes, file: BinaryIO, offset: int, length: int) -> None:
        """Sends the head and a section of a file; without TLS, the kernel sends the file."""
        if length <= AT_ONCE:
            self._socket.sendall(head + os.pread(file.fileno(), length, offset))
            return
        if isinstance(self._socket, ssl.SSLSocket):
            self._socket.sendall(head)
            file.seek(offset)
            while length > 0:
                self._socket.sendall(file.read(min(RECEIVE, length)))
                length -= RECEIVE
            return
        self._socket.sendall(head, socket.MSG_MORE)
        end = offset + length
        while offset < end:
            sent = os.sendfile(self._socket.fileno(), file.fileno(), offset, end - offset)
            if not sent:
                raise OSError("the file of an object is shorter than the object")
            offset += sent

    def reset(self) -> None:
        """Closes the connection with RST instead of FIN."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def shut_down(self) -> None:
        """Wakes the thread that waits for the client; `close` is for that thread."""
        with contextlib.suppress(OSError):  # it may be closed already
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes the connection."""
        self.shut_down()
        self._socket.close()
