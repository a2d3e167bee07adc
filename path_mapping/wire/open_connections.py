"""All connections of a process: closed one by one, or made to fail all together."""

from __future__ import annotations

import threading
from typing import Set

from path_mapping.wire.http_connection import HttpConnection


class OpenConnections:
    """All connections of a process, which `shut` makes fail, whatever their threads do."""

    def __init__(self) -> None:
        self._connections: Set[HttpConnection] = set()
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
