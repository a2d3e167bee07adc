"""What an unfinished download has of its file: the CRC-64 of each range that was written. Append-only."""

from __future__ import annotations

import os
from typing import Dict


class PartJournal:
    """The notes on one unfinished file. They are hints: what they say is compared with the disk.

    A line is one `write`; a torn last one, and anything else that is not as expected, counts for nothing.
    """

    def __init__(self, name: str, folder: int) -> None:
        self._file = os.open(
            name, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640, dir_fd=folder
        )

    def known(self) -> Dict[int, int]:
        """The CRC of each range by its number; the last note counts."""
        os.lseek(self._file, 0, os.SEEK_SET)
        with os.fdopen(os.dup(self._file), "rb") as file:
            found: Dict[int, int] = {}
            for line in file:
                words = line.split()
                if line.endswith(b"\n") and len(words) == 2 and all(word.isdigit() for word in words):
                    found[int(words[0])] = int(words[1])
        return found

    def note(self, number: int, crc: int) -> None:
        """Adds one; a new line first, as the last one may be torn."""
        os.write(self._file, b"\n%d %d\n" % (number, crc))

    def forget(self) -> None:
        """Takes all notes back."""
        os.ftruncate(self._file, 0)

    def close(self) -> None:
        """Ends it; the file stays."""
        os.close(self._file)
