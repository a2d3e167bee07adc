"""A directory that files arrive in: opened once, proven to lie in its root, then used by its handle only."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import itertools
import os
from contextlib import suppress
from pathlib import Path
from typing import Iterator, Tuple

from path_mapping.errors import UnsafeTarget
from path_mapping.localfs.atomic_file import TEMPORARY, contained, is_temporary, make_directories, stem_of

_numbers = itertools.count()


class TargetDir:
    """The directory `path`, made where it is missing; no link that comes later can lead out of `root`.

    Raises `UnsafeTarget` for a link that is there already, and `OSError` for the disk.
    """

    def __init__(self, path: str, root: str) -> None:
        contained(Path(path, "x"), Path(root))
        self._made = make_directories(Path(path))
        self.path = path
        self.handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            real, inside = os.readlink(f"/proc/self/fd/{self.handle}"), os.path.realpath(root)
            if real != inside and not real.startswith(inside.rstrip(os.sep) + os.sep):
                raise UnsafeTarget([f"{path}: a link leads to {real}, outside of {root}"])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Gives the handle back."""
        os.close(self.handle)

    def undo(self) -> None:
        """Removes the directories that it made, where nothing is in them."""
        for directory in self._made:
            with suppress(OSError):
                directory.rmdir()

    def create(self, name: str) -> Tuple[str, int]:
        """A new file beside `name`, locked for as long as it is open: its name and its handle."""
        temporary = f".{stem_of(name)}.{os.getpid():x}-{next(_numbers):x}{TEMPORARY}"
        file = os.open(
            temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640, dir_fd=self.handle
        )
        with suppress(OSError):  # a file system without locks: what is left there is told by nothing
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return temporary, file

    def settle(self, temporary: str, name: str) -> None:
        """Moves the file into its place."""
        os.rename(temporary, name, src_dir_fd=self.handle, dst_dir_fd=self.handle)

    def discard(self, temporary: str) -> None:
        """Removes an unfinished file."""
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=self.handle)


def write_all(file: int, data: memoryview, offset: int) -> None:
    """Writes all of it at its place; a full disk raises."""
    done = 0
    while done < len(data):
        written = os.pwrite(file, data[done:], offset + done)
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done += written


def leftovers(directory: str) -> Iterator[str]:
    """The unfinished files in a directory, of runs that are over: nobody holds their locks."""
    try:
        names = [entry.name for entry in os.scandir(directory) if is_temporary(entry.name)]
    except OSError:
        return
    for name in names:
        path = os.path.join(directory, name)
        if not is_locked(path):
            yield path


def allocate(file: int, size: int) -> None:
    """Gives the empty file its size, and its place on the disk where the file system can; raises when full.

    Not `os.posix_fallocate`: where the file system cannot, that writes to every block.
    """
    os.ftruncate(file, 0)
    call = ctypes.CDLL(None, use_errno=True).fallocate
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    if call(file, 0, 0, size) != 0:
        number = ctypes.get_errno()
        if number not in (errno.EOPNOTSUPP, errno.ENOSYS):
            raise OSError(number, os.strerror(number))
        os.ftruncate(file, size)


def is_locked(path: str, missing: bool = True) -> bool:
    """True when a process still works on the file, or nobody can tell; `missing` if it is not there."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
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
