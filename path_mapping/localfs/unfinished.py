"""The unfinished files of downloads: their names, their locks, and the journal of what they have."""

from __future__ import annotations

import errno
import fcntl
import os
from typing import Dict, Iterator

from path_mapping.localfs.names import LONGEST_NAME, is_temporary

_ADDED_BYTES = 40  # room for what a name gets beside the file's own


def stem_of(name: str) -> str:
    """As much of a file's name as fits into the name of an unfinished file."""
    return os.fsdecode(os.fsencode(name)[: LONGEST_NAME - _ADDED_BYTES])


def lock(file: int) -> None:
    """Shows that somebody works on an open file, until it is closed; does nothing without file locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return


def is_locked(path: str, missing: bool = True) -> bool:
    """Whether a process works on the file, or that is unknown; `missing` if it does not exist."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return missing
    except OSError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


def leftovers(directory: str) -> Iterator[str]:
    """The paths of unfinished files in a directory on which no process works any more."""
    try:
        names = [entry.name for entry in os.scandir(directory) if is_temporary(entry.name)]
    except OSError:
        return
    for name in names:
        path = os.path.join(directory, name)
        if not is_locked(path):
            yield path


def allocate(file: int, size: int) -> None:
    """Empties an open file and gives it its size, with blocks on the disk if the file system can.

    Not `os.posix_fallocate`, which writes to every block if the file system cannot. Raises `OSError` for a
    full disk.
    """
    import ctypes  # slow to import, and not needed where nothing is transferred

    os.ftruncate(file, 0)
    call = ctypes.CDLL(None, use_errno=True).fallocate
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    if call(file, 0, 0, size) != 0:
        number = ctypes.get_errno()
        if number not in (errno.EOPNOTSUPP, errno.ENOSYS):
            raise OSError(number, os.strerror(number))
        os.ftruncate(file, size)


class PartJournal:
    """The CRC-64 of each range of an unfinished file that was written: hints, which are checked on the disk.

    Append-only. A line is one `write`; a torn last line, or any other unexpected one, is ignored.
    """

    def __init__(self, name: str, directory: int) -> None:
        """Opens or creates it in a directory that is given by its open file descriptor. Raises `OSError`."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        self._file = os.open(name, flags, 0o640, dir_fd=directory)

    def known(self) -> Dict[int, int]:
        """The CRC of each range by its number; the last one written counts."""
        os.lseek(self._file, 0, os.SEEK_SET)
        with os.fdopen(os.dup(self._file), "rb") as file:
            found: Dict[int, int] = {}
            for line in file:
                words = line.split()
                if line.endswith(b"\n") and len(words) == 2 and all(word.isdigit() for word in words):
                    found[int(words[0])] = int(words[1])
        return found

    def note(self, number: int, crc: int) -> None:
        """Adds a range. A newline comes first, as the last line may be torn."""
        os.write(self._file, b"\n%d %d\n" % (number, crc))

    def forget(self) -> None:
        """Removes all ranges."""
        os.ftruncate(self._file, 0)

    def close(self) -> None:
        """Closes the journal; its file stays."""
        os.close(self._file)
