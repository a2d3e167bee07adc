"""Files on the local disk: written beside their place, verified, then moved into it."""

from __future__ import annotations

import fcntl
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Callable, Iterable, Iterator, List, NamedTuple, Optional

from path_mapping.errors import Unreachable, UnsafeTarget
from path_mapping.localfs.checksums import new_md5

CHUNK = 1 << 20
TEMPORARY = ".ma_part"
CHANGED_ATTEMPTS = 3
_LONGEST_NAME = 255


class State(NamedTuple):
    """What tells that a file was written to, or is another one."""

    size: int
    mtime_ns: int
    inode: int


def state_of(status: os.stat_result) -> State:
    """The state to compare, before and after."""
    return State(status.st_size, status.st_mtime_ns, status.st_ino)


def chunks(path: Path) -> Iterator[bytes]:
    """The file's content in pieces of 1 MiB."""
    with path.open("rb") as file:
        while True:
            data = file.read(CHUNK)
            if not data:
                return
            yield data


def is_temporary(name: str) -> bool:
    """True for the name of a file that a transfer has not finished."""
    return name.startswith(".") and name.endswith(TEMPORARY)


def stem_of(name: str) -> str:
    """What of a file's name fits into that of an unfinished one."""
    return os.fsdecode(os.fsencode(name)[: _LONGEST_NAME - 40])


def write_verified(target: Path, pieces: Iterable[bytes], size: int, md5: Optional[str]) -> None:
    """Puts the pieces into the file: all of them, of the right size and MD5, or the disk stays as it was.

    Parents are made with mode 0750, the file has 0640. Raises `Unreachable` for content that is not as
    expected, and `OSError` for the disk.
    """
    made = make_directories(target.parent)
    try:
        _write_beside(target, pieces, size, md5)
    except BaseException:
        for directory in made:
            with suppress(OSError):  # not empty: another file has come into it
                directory.rmdir()
        raise


def make_directories(path: Path) -> List[Path]:
    """Makes a directory and its parents, each with mode 0750; returns what it made, the deepest first.

    `Path.mkdir(parents=True)` gives the mode to the last one only.
    """
    missing = [directory for directory in (path, *path.parents) if not os.path.lexists(directory)]
    for directory in reversed(missing):
        with suppress(FileExistsError):  # somebody else's, a moment ago
            directory.mkdir(mode=0o750)
    return missing


def _write_beside(target: Path, pieces: Iterable[bytes], size: int, md5: Optional[str]) -> None:
    prefix = f".{stem_of(target.name)}."
    handle, temporary = tempfile.mkstemp(prefix=prefix, suffix=TEMPORARY, dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # tells that somebody works on it
            digest, written = new_md5(), 0
            for piece in pieces:
                file.write(piece)
                if md5 is not None:
                    digest.update(piece)
                written += len(piece)
            os.fchmod(file.fileno(), 0o640)
        if written != size:
            raise Unreachable(f"{written} bytes arrived, expected {size}")
        if md5 is not None and digest.hexdigest() != md5:
            raise Unreachable(f"the content has MD5 {digest.hexdigest()}, expected {md5}")
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def contained(target: Path, root: Path) -> None:
    """Raises `UnsafeTarget` when a link on the way would put the file outside of its root."""
    inside = os.path.realpath(root)
    parent = os.path.realpath(target.parent)
    if parent != inside and not parent.startswith(inside.rstrip(os.sep) + os.sep):
        raise UnsafeTarget([f"{target}: a link leads to {parent}, outside of {root}"])


class Section:
    """The bytes of a file from `offset` on, for the SDK to send; a file that became shorter is an error."""

    def __init__(self, file: BinaryIO, offset: int, size: int, sent: Callable[[int], None]) -> None:
        self.size = size
        self._file = file
        self._offset = offset
        self._left = size
        self._sent = sent
        file.seek(offset)

    def rewound(self) -> Section:
        """The same, read from its first byte on."""
        self._file.seek(self._offset)
        self._left = self.size
        return self

    def read(self, size: int) -> bytes:
        """The next piece."""
        piece = self._file.read(min(size, self._left))
        if not piece and self._left:
            raise Unreachable(f"the file ended {self._left} bytes early: it became shorter")
        self._left -= len(piece)
        self._sent(len(piece))
        return piece

    def md5(self) -> str:
        """The MD5 of all of it, in hex; reading starts anew afterwards."""
        digest, left = new_md5(), self.rewound().size
        while left:
            piece = self._file.read(min(CHUNK, left))
            if not piece:
                break
            digest.update(piece)
            left -= len(piece)
        self.rewound()
        return digest.hexdigest()
