"""One client's connection: heads and bodies of requests in, answers out."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import struct
from typing import BinaryIO

RECEIVE = 1 << 18
MAX_HEAD = 64 << 10
AT_ONCE = 128 << 10  # a body up to here goes out with its head, in one call


class Connection:
    """A socket with what was received and not yet asked for."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._rest = b""

    def head(self) -> bytes:
        """The next request's head without the empty line; empty when the client has gone."""
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
        """The next bytes, at most `size`; none when the client has gone."""
        if self._rest:
            piece, self._rest = self._rest[:size], self._rest[size:]
            return piece
        return self._socket.recv(size)

    def line(self) -> bytes:
        """The bytes up to the next end of a line, without it; none when the client has gone."""
        while b"\r\n" not in self._rest:
            piece = self._socket.recv(RECEIVE) if len(self._rest) < MAX_HEAD else b""
            if not piece:
                return b""
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\r\n")
        return line

    def send(self, data: bytes) -> None:
        """Sends all of it."""
        self._socket.sendall(data)

    def send_file(self, head: bytes, file: BinaryIO, offset: int, length: int) -> None:
        """Sends the head and then a part of a file, which is not copied through this process."""
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
                raise OSError("a stored file is shorter than its object")
            offset += sent

    def reset(self) -> None:
        """Ends the connection with RST instead of FIN."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def end(self) -> None:
        """Wakes who waits for the client; for another thread than the one that closes."""
        with contextlib.suppress(OSError):  # it may have ended already
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends the connection."""
        self.end()
        self._socket.close()
