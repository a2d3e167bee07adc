"""Output of a script rank that goes to a file of its own."""

from __future__ import annotations

import os
import time

# Bytes that are read at once, as much as is kept of a worker's output.
TAIL_BYTES = 1 << 16


class RankOutput:
    """A rank that a command has started, with the file of its output; None if it has none of its own.

    `code` is its exit code once it has ended, -1 where only its parent has read it. The observer that has
    found the rank sets it, and other threads read it.
    """

    def __init__(self, rank: int, pid: int, log_file: str | None) -> None:
        self.label = f"rank {rank}"
        self.rank = rank
        self.pid = pid
        self.code: int | None = None
        self._log_file = log_file

    @property
    def has_ended(self) -> bool:
        """True once the rank has ended."""
        return self.code is not None

    def since(self, position: int) -> tuple[int, bytes, float]:
        """Returns the size of the file, the last 64 KiB after `position`, and when it was written.

        The time is monotonic. A file that is missing, or is shorter than before, has no new bytes.
        """
        now = time.monotonic()
        read = None if self._log_file is None else _read_after(self._log_file, position)
        if read is None:
            return position, b"", now
        size, data, modified = read
        return max(position, size), data, now - max(0.0, time.time() - modified)


def read_tail(path: str) -> str:
    """Returns the last 64 KiB of a file as text; empty if it is unreadable."""
    read = _read_after(path, 0)
    return "" if read is None else read[1].decode("utf-8", "replace")


def _read_after(path: str, position: int) -> tuple[int, bytes, float] | None:
    """Returns a file's size, its last 64 KiB after `position`, and its modification time (Unix)."""
    try:
        with open(path, "rb", buffering=0) as file:
            stat = os.fstat(file.fileno())
            new = max(0, min(stat.st_size - position, TAIL_BYTES))
            file.seek(stat.st_size - new)
            return stat.st_size, file.read(new), stat.st_mtime
    except OSError:
        return None
