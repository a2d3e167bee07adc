"""Reader of a file that another process, or another thread, appends lines to."""

from __future__ import annotations

import os
from pathlib import Path


class GrowingFile:
    """Reads each complete line of a growing file once.

    A writer may be in the middle of a line at any time, and an end of the file without a newline cannot be
    told from that. So the bytes after the last newline are kept until the rest of their line has come; a line
    that its writer never ends is never returned. A missing or unreadable file has no lines, for now.
    """

    # Bytes per read, so that a file of any size is read in bounded memory.
    READ_BYTES = 1 << 22

    def __init__(self, path: Path, offset: int = 0) -> None:
        self._path = path
        self._offset = offset
        self._torn = b""
        self._count = 0

    @classmethod
    def from_now_on(cls, path: Path) -> GrowingFile:
        """Returns a reader of the lines that are appended after this call."""
        try:
            return cls(path, os.stat(path).st_size)
        except OSError:
            return cls(path)

    def new_lines(self) -> list[str]:
        """Returns the lines that were completed since the last call, without their newlines."""
        lines: list[str] = []
        while True:
            data = self._read()
            *complete, self._torn = (self._torn + data).split(b"\n")
            self._count += len(complete)
            lines += [line.decode("utf-8", "replace") for line in complete]
            if len(data) < self.READ_BYTES:
                return lines

    def count_lines(self) -> int:
        """Returns the number of complete lines since the first call."""
        self.new_lines()
        return self._count

    def _read(self) -> bytes:
        try:
            with self._path.open("rb", buffering=0) as file:
                file.seek(self._offset)
                data = file.read(self.READ_BYTES)
        except OSError:
            return b""
        self._offset += len(data)
        return data
