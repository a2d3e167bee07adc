"""Reads local files, which others may change meanwhile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Callable, Iterator, NamedTuple, Optional

from path_mapping.errors import Unreachable
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


class Section:
    """A file-like object of `size` bytes of a file from `offset` on; `sent` is told how many were read.

    `read` raises `Unreachable` for a file that is too short: it was truncated.
    """

    def __init__(self, file: BinaryIO, offset: int, size: int, sent: Callable[[int], None]) -> None:
        self.size = size
        self._file = file
        self._offset = offset
        self._left = size
        self._sent = sent
        file.seek(offset)

    def rewound(self) -> Section:
        """Itself, at its first byte again."""
        self._file.seek(self._offset)
        self._left = self.size
        return self

    def read(self, size: int) -> bytes:
        """At most `size` of the next bytes."""
        piece = self._next(size)
        if not piece and self._left:
            raise Unreachable(f"the file ended {self._left} bytes early: it was truncated")
        self._sent(len(piece))
        return piece

    def _next(self, size: int) -> bytes:
        piece = self._file.read(min(size, self._left))
        self._left -= len(piece)
        return piece

    def md5(self) -> str:
        """The MD5 of all of it in hex, which `sent` is not told; rewinds."""
        self.rewound()
        digest = md5_of(iter(lambda: self._next(CHUNK), b""))
        self.rewound()
        return digest
