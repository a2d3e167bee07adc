"""Messages between a transfer and its worker processes."""

from __future__ import annotations

import pickle
import socket
import struct
from typing import Any

_LENGTH = struct.Struct("!Q")


class MessageSocket:
    """One end of a connection; each message is a pickle, with its length in bytes before it.

    Not the `Connection` of `multiprocessing`, whose import takes a quarter of the start of a worker. For one
    thread that sends and one that receives.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def fileno(self) -> int:
        """The descriptor, which is readable when a message comes, or the other end was closed."""
        return self._end.fileno()

    def close(self) -> None:
        """Closes this end."""
        self._end.close()

    def send(self, message: object) -> None:
        """Sends a message. Raises `OSError` if the other end was closed."""
        content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        self._end.sendall(_LENGTH.pack(len(content)) + content)

    def receive(self) -> Any:
        """The next message, all of it. Raises `EOFError` or `OSError` if the other end was closed."""
        (size,) = _LENGTH.unpack(self._received(_LENGTH.size))
        return pickle.loads(self._received(size))

    def _received(self, size: int) -> bytearray:
        content = bytearray(size)
        left = memoryview(content)
        while left:
            received = self._end.recv_into(left)
            if not received:
                raise EOFError("the other end was closed")
            left = left[received:]
        return content
