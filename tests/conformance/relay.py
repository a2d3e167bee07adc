"""A line between a client and any server that breaks as it is told to: for servers that never do."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import List
from urllib.parse import urlsplit

BUSY = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
PASSED = 300_000  # bytes of answers that come through before the line breaks


class Relay:
    """Each connection takes the next of `breaks`; with none left it is sound.

    `503`: the first request is refused. Of the answers some bytes come through, then: `cut` ends the
    connection, `reset` does so with RST, `stall` lets nothing more through.
    """

    def __init__(self, url: str) -> None:
        self.breaks: List[str] = []
        self._target = (urlsplit(url).hostname, urlsplit(url).port)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._ended = threading.Event()

    def __enter__(self) -> Relay:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                how = self.breaks.pop(0) if self.breaks else ""
                threading.Thread(target=self._serve, args=(client, how), daemon=True).start()

    def _serve(self, client: socket.socket, how: str) -> None:
        with contextlib.suppress(OSError), client:
            if how == "503":
                client.recv(65536)
                client.sendall(BUSY)
                return
            with socket.create_connection(self._target) as server:
                pump = threading.Thread(target=_pump, args=(client, server), daemon=True)
                pump.start()
                self._answers(server, client, how)
                client.shutdown(socket.SHUT_RD)  # a socket that is read by a thread does not end with close()
                pump.join()

    def _answers(self, server: socket.socket, client: socket.socket, how: str) -> None:
        left = PASSED if how else None
        while left is None or left > 0:
            piece = server.recv(65536 if left is None else min(left, 65536))
            if not piece:
                return
            client.sendall(piece)
            left = None if left is None else left - len(piece)
        if how == "stall":
            self._ended.wait()
        elif how == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            piece = source.recv(65536)
            if not piece:
                target.shutdown(socket.SHUT_WR)
                return
            target.sendall(piece)
