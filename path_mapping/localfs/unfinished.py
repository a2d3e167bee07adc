"""The unfinished files of downloads: their names, their locks, and the journal of what they have."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import os
import re
import time
from functools import lru_cache
from pathlib import Path
from typing import Dict, Iterator

from path_mapping.localfs.names import LONGEST_NAME, TEMPORARY, is_temporary

_ADDED_BYTES = 40  # room for what a name gets beside the file's own
FOREIGN_SECONDS = 86400.0  # without a write, after which nobody works on a file: longer than any retry
# Options of nfs(5) and of Lustre; locks on FUSE are those of one mount, unless its program forwards them.
_LOCAL_LOCKS = re.compile(r" - (fuse\S* |\S+ \S+ (\S+,)?(nolock|local_lock=(all|flock)|localflock)\b)")


def stem_of(name: str) -> str:
    """As much of a file's name as fits into the name of an unfinished file."""
    return os.fsdecode(os.fsencode(name)[: LONGEST_NAME - _ADDED_BYTES])


@lru_cache(maxsize=1)
def host_mark() -> str:
    """Eight hex digits for this host, with which the names of its unfinished files begin."""
    return hashlib.sha256(os.uname().nodename.encode()).hexdigest()[:8]


def unfinished_name(name: str) -> str:
    """A new name for an unfinished file of this name."""
    return f".{stem_of(name)}.{host_mark()}{os.urandom(4).hex()}{TEMPORARY}"


def locks_are_local(directory: str) -> bool:
    """Whether other hosts may work on files there, and see none of this one's locks, by /proc/self/mountinfo.

    The directory need not exist yet.
    """
    there = next(path for path in (Path(directory), *Path(directory).absolute().parents) if path.exists())
    try:
        mounts = Path("/proc/self/mountinfo").read_text("utf-8", "replace")
        return _are_local(mounts, there.stat().st_dev)
    except OSError:
        return False


def _are_local(mounts: str, device: int) -> bool:
    number = f"{os.major(device)}:{os.minor(device)}"
    lines = (line for line in mounts.splitlines() if line.split(" ", 3)[2] == number)
    return any(_LOCAL_LOCKS.search(line) for line in lines)


def lock(file: int) -> bool:
    """Shows that somebody works on an open file, until it is closed.

    False if another process does, or the file system has no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def is_locked(path: str) -> bool:
    """Whether a process works on the file, or that is unknown, as for one that does not exist."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return True
    try:
        return not lock(file)
    finally:
        os.close(file)


def leftovers(directory: str) -> Iterator[str]:
    """The paths of unfinished files in a directory on which no process works any more.

    What another host's locks do not tell, the time does: it has not written for a day.
    """
    try:
        names = [entry.name for entry in os.scandir(directory) if is_temporary(entry.name)]
    except OSError:
        return
    local = bool(names) and locks_are_local(directory)
    for name in names:
        path = os.path.join(directory, name)
        foreign = local and not re.search(rf"\.{host_mark()}[0-9a-f]{{4,8}}(\.parts)?{TEMPORARY}$", name)
        if not is_locked(path) and not (foreign and _is_recent(path)):
            yield path


def _is_recent(path: str) -> bool:
    try:
        return time.time() - os.lstat(path).st_mtime < FOREIGN_SECONDS
    except OSError:
        return True


def allocate(file: int, size: int) -> None:
    """Gives a new, empty file its size, with blocks on the disk if the file system can.

    Not `os.posix_fallocate`, which writes to every block if the file system cannot. Raises `OSError` for a
    full disk.
    """
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
