"""Progress of checksums of local files, which may take minutes before the first byte of a transfer."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Callable


class HashProgress:
    """Bytes to read for checksums: `expected` so far, and those that are `done`. Thread-safe.

    `changed` is called after each piece, in the thread that reads it.
    """

    def __init__(self) -> None:
        self.expected = 0
        self.done = 0
        self.changed: Callable[[], None] = lambda: None
        self._lock = threading.Lock()

    def expect(self, count: int) -> None:
        """Adds bytes that will be read."""
        with self._lock:
            self.expected += count

    def counted(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yields the pieces, and counts their bytes."""
        for piece in pieces:
            with self._lock:
                self.done += len(piece)
                self.expected = max(self.expected, self.done)
            self.changed()
            yield piece
