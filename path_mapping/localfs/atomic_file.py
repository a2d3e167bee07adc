"""Files that are written beside their place, verified, then moved into it: completely or not at all."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from path_mapping.errors import Unreachable, UnsafeTarget
from path_mapping.localfs.names import LONGEST_NAME, TEMPORARY, is_temporary
from path_mapping.localfs.source_file import new_md5

# Bytes of a name that are left for the marks of an unfinished file, a record or an upload.
_ADDED_BYTES = 40
# Seconds without a write, after which another host's unfinished file is abandoned: longer than any retry.
FOREIGN_SECONDS = 86400.0
# Directories that are kept open.
MOST_OPEN = 8
# Options of nfs(5) and of Lustre; locks on FUSE are those of one mount, unless its program forwards them.
_LOCAL_LOCKS = re.compile(r" - (fuse\S* |\S+ \S+ (\S+,)?(nolock|local_lock=(all|flock)|localflock)\b)")


def stem_of(name: str) -> str:
    """Returns as much of a file's name as fits into the name of an unfinished file."""
    return os.fsdecode(os.fsencode(name)[: LONGEST_NAME - _ADDED_BYTES])


@lru_cache(maxsize=1)
def host_mark() -> str:
    """Returns eight hex digits that mark the unfinished files of this host."""
    return hashlib.sha256(os.uname().nodename.encode()).hexdigest()[:8]


def unfinished_name(name: str) -> str:
    """Returns a new name for an unfinished file of this name."""
    return f".{stem_of(name)}.{host_mark()}{os.urandom(4).hex()}{TEMPORARY}"


def locks_are_local(directory: str) -> bool:
    """Tells whether other hosts may share the directory, but not the locks, by /proc/self/mountinfo.

    The directory need not exist yet.
    """
    existing = next(path for path in (Path(directory), *Path(directory).absolute().parents) if path.exists())
    try:
        mounts = Path("/proc/self/mountinfo").read_text("utf-8", "replace")
        return has_local_locks(mounts, existing.stat().st_dev)
    except OSError:
        return False


def has_local_locks(mounts: str, device: int) -> bool:
    """Tells whether a device is mounted without shared locks; `mounts` is the text of mountinfo(5)."""
    number = f"{os.major(device)}:{os.minor(device)}"
    lines = (line for line in mounts.splitlines() if line.split(" ", 3)[2] == number)
    return any(_LOCAL_LOCKS.search(line) for line in lines)


def lock(file: int) -> bool:
    """Locks an open file until it is closed, as a sign that this process works on it.

    False if another process has the lock, or the file system has no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def is_locked(path: str) -> bool:
    """Tells whether a process works on the file; True if that is unknown, as for a missing file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return True
    try:
        return not lock(file)
    finally:
        os.close(file)


def leftovers(directory: str) -> Iterator[str]:
    """Yields the paths of unfinished files in a directory on which no process works any more.

    Where the locks of other hosts are not visible, their files are abandoned after a day without a write.
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

    Not `os.posix_fallocate`, which writes to every block if the file system cannot allocate. Raises `OSError`
    for a full disk.
    """
    call = ctypes.CDLL(None, use_errno=True).fallocate
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    if call(file, 0, 0, size) != 0:
        number = ctypes.get_errno()
        if number not in (errno.EOPNOTSUPP, errno.ENOSYS):
            raise OSError(number, os.strerror(number))
        os.ftruncate(file, size)


class PartJournal:
    """The CRC-64 of each written range of an unfinished file: hints, which are compared with the file.

    Append-only. A line is one `write`; a torn last line, or any other unexpected one, is ignored.
    """

    def __init__(self, name: str, directory: int) -> None:
        """Opens or creates the journal in a directory, given by its file descriptor. Raises `OSError`."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        self._file = os.open(name, flags, 0o640, dir_fd=directory)

    def known(self) -> dict[int, int]:
        """Returns the CRC of each range by its number, the last one that was written."""
        os.lseek(self._file, 0, os.SEEK_SET)
        with os.fdopen(os.dup(self._file), "rb") as file:
            spans: dict[int, int] = {}
            for line in file:
                words = line.split()
                if line.endswith(b"\n") and len(words) == 2 and all(word.isdigit() for word in words):
                    spans[int(words[0])] = int(words[1])
        return spans

    def note(self, number: int, crc: int) -> None:
        """Adds a range, after a newline: a kill may have torn the last line."""
        os.write(self._file, b"\n%d %d\n" % (number, crc))

    def forget(self) -> None:
        """Removes all ranges."""
        os.ftruncate(self._file, 0)

    def close(self) -> None:
        """Closes the journal; its file stays."""
        os.close(self._file)


# Extended attribute of a downloaded file, see `FileMark`.
ATTRIBUTE = "user.path_mapping"


class FileMark(NamedTuple):
    """Origin of a downloaded file: the object's size in bytes, and its ETag without quotes.

    `mtime_ns` is the file's time when it was written, in nanoseconds.
    """

    size: int
    etag: str
    mtime_ns: int


def put_mark(file: int, size: int, etag: str) -> None:
    """Marks an open file after its last byte; does nothing if there is no ETag or the disk cannot.

    An extended attribute moves into place together with the content, so a kill at any time leaves no file
    without its mark. On file systems without extended attributes, such files are downloaded again.
    """
    if not etag:
        return
    text = f"{size} {os.fstat(file).st_mtime_ns} {etag.strip(chr(34))}"
    try:
        os.setxattr(file, ATTRIBUTE, text.encode("utf-8", "replace"))
    except OSError:
        return


def read_mark(path: str | os.PathLike[str]) -> FileMark | None:
    """Returns the mark of a file; None if it has none or does not exist."""
    try:
        text = os.getxattr(path, ATTRIBUTE, follow_symlinks=False).decode("utf-8")
        size, mtime_ns, etag = text.split(" ", 2)
        return FileMark(int(size), etag, int(mtime_ns))
    except (OSError, ValueError):
        return None


def check_contained(target: Path, root: Path) -> None:
    """Raises `UnsafeTarget` if a symbolic link in the path would put the file outside of its root."""
    _check_inside(os.path.realpath(target.parent), root, str(target))


def _check_inside(real: str, root: Path, shown: str) -> None:
    inside = os.path.realpath(root)
    if real != inside and not real.startswith(inside.rstrip(os.sep) + os.sep):
        raise UnsafeTarget([f"{shown}: a link leads to {real}, outside of {root}"])


def make_directories(path: Path) -> list[Path]:
    """Makes a directory and its parents, each with mode 0750; returns those it made, the deepest first.

    `Path.mkdir(parents=True)` gives the mode to the last one only. Raises `OSError`.
    """
    missing = [directory for directory in (path, *path.parents) if not os.path.lexists(directory)]
    for directory in reversed(missing):
        with suppress(FileExistsError):  # another process was faster
            directory.mkdir(mode=0o750)
    return missing


class TargetDir:
    """A directory to write files into, made if it is missing; once open, links cannot redirect it.

    Raises `UnsafeTarget` if a link leads out of `root`, and `OSError`.
    """

    def __init__(self, path: str, root: str) -> None:
        check_contained(Path(path, "x"), Path(root))
        self._made = make_directories(Path(path))
        self.path = path
        self.handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # Again, by the descriptor: a link may have come since the first check.
            _check_inside(os.readlink(f"/proc/self/fd/{self.handle}"), Path(root), path)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the directory."""
        os.close(self.handle)

    def undo(self) -> None:
        """Removes the directories that it made, if they are empty."""
        for directory in self._made:
            with suppress(OSError):
                directory.rmdir()

    def create(self, name: str, temporary: str = "") -> tuple[str, int]:
        """Creates an unfinished file for `name`, locked while it is open; returns its name and descriptor.

        Without a `temporary` name it gets a random one. Raises `FileExistsError`.
        """
        temporary = temporary or unfinished_name(name)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        file = os.open(temporary, flags, 0o640, dir_fd=self.handle)
        lock(file)
        return temporary, file

    def resume(self, temporary: str, size: int) -> int | None:
        """Opens and locks an unfinished file of an earlier run; one of another size in bytes is removed.

        None if there is none, or if another process may work on it.
        """
        try:
            file = os.open(temporary, os.O_RDWR | os.O_NOFOLLOW, dir_fd=self.handle)
        except OSError:
            return None
        if lock(file) and self.has(temporary, file):
            if os.fstat(file).st_size == size:
                return file
            self.discard(temporary)
        os.close(file)
        return None

    def has(self, temporary: str, file: int) -> bool:
        """Tells whether this is still the name of the open file: it was not moved, replaced or removed."""
        try:
            named = os.stat(temporary, dir_fd=self.handle, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(named, os.fstat(file))

    def commit(self, temporary: str, name: str, file: int) -> None:
        """Moves an unfinished file into its place. Raises `FileNotFoundError` if it has lost its name."""
        if not self.has(temporary, file):
            raise FileNotFoundError(errno.ENOENT, "another process took the unfinished file", temporary)
        os.rename(temporary, name, src_dir_fd=self.handle, dst_dir_fd=self.handle)

    def discard(self, temporary: str) -> None:
        """Removes an unfinished file, if it exists."""
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=self.handle)


class OpenDirectories:
    """Directories that are kept open, for the next file in one of them; those in use are not closed."""

    def __init__(self) -> None:
        # By path; the last one used comes last.
        self._open: dict[str, TargetDir] = {}
        self._users: dict[TargetDir, int] = {}

    def take(self, path: str, root: str) -> TargetDir:
        """Returns an open directory, which `release` gives back. Raises what `TargetDir` raises."""
        directory = self._open.pop(path, None) or TargetDir(path, root)
        self._open[path] = directory
        self._users[directory] = self._users.get(directory, 0) + 1
        while len(self._open) > MOST_OPEN:
            self.forget(next(iter(self._open)))
        return directory

    def release(self, directory: TargetDir) -> None:
        """Gives a directory back."""
        self._users[directory] -= 1
        if self._open.get(directory.path) is not directory:
            self._close_unused(directory)

    def forget(self, path: str) -> None:
        """Opens the directory anew for the next file."""
        directory = self._open.pop(path, None)
        if directory is not None:
            self._close_unused(directory)

    def _close_unused(self, directory: TargetDir) -> None:
        if not self._users[directory]:
            del self._users[directory]
            directory.close()

    def close(self) -> None:
        """Closes all of them, after the last file."""
        for path in list(self._open):
            self.forget(path)


def write_all(file: int, data: bytes | memoryview, offset: int) -> None:
    """Writes all the data at an offset of an open file. Raises `OSError`, also for a full disk."""
    done = 0
    while done < len(data):
        written = os.pwrite(file, data[done:], offset + done)
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done += written


def write_verified(target: Path, pieces: Iterable[bytes], size: int, md5: str | None) -> None:
    """Writes a file with mode 0640, or leaves the disk as it was.

    Raises:
        Unreachable: The pieces do not have this size in bytes, or this MD5 in hex.
        OSError: The disk failed.
    """
    directory = TargetDir(os.fspath(target.parent), os.fspath(target.parent))
    try:
        temporary, file = directory.create(target.name)
        try:
            _fill(file, pieces, size, md5)
            directory.commit(temporary, target.name, file)
        except BaseException:
            directory.discard(temporary)
            raise
        finally:
            os.close(file)
    except BaseException:
        directory.undo()
        raise
    finally:
        directory.close()


def _fill(file: int, pieces: Iterable[bytes], size: int, md5: str | None) -> None:
    digest, written = new_md5(), 0
    for piece in pieces:
        if written + len(piece) > size:
            raise Unreachable(f"more than the expected {size} bytes arrived")
        write_all(file, memoryview(piece), written)
        if md5 is not None:
            digest.update(piece)
        written += len(piece)
    os.fchmod(file, 0o640)
    if written != size:
        raise Unreachable(f"{written} bytes arrived, expected {size}")
    if md5 is not None and digest.hexdigest() != md5:
        raise Unreachable(f"the content has MD5 {digest.hexdigest()}, expected {md5}")
