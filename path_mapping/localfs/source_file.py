"""Reads local files, which others may change meanwhile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, Iterator, NamedTuple, Optional

from path_mapping.localfs.checksums import crc64, md5_of

CHUNK = 1 << 20  # bytes that are read at once
CHANGED_ATTEMPTS = 3  # uploads of a file that changes meanwhile, until it has failed


class FileChanged(OSError):
    """The file was written to, or replaced, since it was looked at: nothing of it was stored."""


class FileState(NamedTuple):
    """What changes when a file is written to or replaced."""

    size: int
    mtime_ns: int
    inode: int


def state_of(status: os.stat_result) -> FileState:
    """The state, to compare it before and after."""
    return FileState(status.st_size, status.st_mtime_ns, status.st_ino)


def check_unchanged(file: int, before: Optional[FileState]) -> None:
    """Raises `FileChanged` if an open file is no longer in the state `before`."""
    if before is not None and state_of(os.fstat(file)) != before:
        raise FileChanged("the file changed during its upload")


def chunks(path: Path) -> Iterator[bytes]:
    """The file's content in pieces of `CHUNK` bytes. Raises `OSError`."""
    with path.open("rb") as file:
        yield from iter(lambda: file.read(CHUNK), b"")


class RangeReader:
    """Reads ranges of open files, piece by piece through `buffer`. `check` is called often, and may raise."""

    def __init__(self, buffer: bytearray, check: Callable[[], None]) -> None:
        self._buffer = memoryview(buffer)
        self._check = check

    def pieces(self, file: int, offset: int, size: int) -> Iterator[memoryview]:
        """Yields these bytes of the file, each piece valid until the next; fewer if the file is shorter."""
        end = offset + size
        while offset < end:
            self._check()
            found = os.preadv(file, [self._buffer[: min(len(self._buffer), end - offset)]], offset)
            if not found:
                return
            yield self._buffer[:found]
            offset += found

    def crc_of(self, file: int, offset: int, size: int) -> int:
        """The CRC-64 of a range."""
        crc = 0
        for piece in self.pieces(file, offset, size):
            crc = crc64(piece, crc)
        return crc

    def md5_of(self, file: int, offset: int, size: int) -> str:
        """The MD5 of a range in hex."""
        return md5_of(self.pieces(file, offset, size))
