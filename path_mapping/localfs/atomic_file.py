"""Files that are written beside their place, verified, then moved into it: whole or not at all."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Iterable, List, NamedTuple, Optional, Tuple, Union

from path_mapping.errors import Unreachable, UnsafeTarget
from path_mapping.localfs.checksums import new_md5
from path_mapping.localfs.unfinished import lock, unfinished_name

ATTRIBUTE = "user.path_mapping"


class FileMark(NamedTuple):
    """What a downloaded file is a copy of: the object's size in bytes, and its ETag without quotes.

    `mtime_ns` is the file's when it was written.
    """

    size: int
    etag: str
    mtime_ns: int


def put_mark(file: int, size: int, etag: str) -> None:
    """Marks an open file after its last byte; does nothing if there is no ETag or the disk cannot.

    An extended attribute moves into place together with the content: whenever a run is killed, no file is
    left without its mark. On file systems without extended attributes, such files are downloaded again.
    """
    if not etag:
        return
    text = f"{size} {os.fstat(file).st_mtime_ns} {etag.strip(chr(34))}"
    try:
        os.setxattr(file, ATTRIBUTE, text.encode("utf-8", "replace"))
    except OSError:
        return


def read_mark(path: Union[str, os.PathLike[str]]) -> Optional[FileMark]:
    """The mark of a file; None if it has none or does not exist."""
    try:
        text = os.getxattr(path, ATTRIBUTE, follow_symlinks=False).decode("utf-8")
        size, mtime_ns, etag = text.split(" ", 2)
        return FileMark(int(size), etag, int(mtime_ns))
    except (OSError, ValueError):
        return None


def contained(target: Path, root: Path) -> None:
    """Raises `UnsafeTarget` if a symbolic link on the way would put the file outside of its root."""
    _check_inside(os.path.realpath(target.parent), root, str(target))


def _check_inside(real: str, root: Path, shown: str) -> None:
    inside = os.path.realpath(root)
    if real != inside and not real.startswith(inside.rstrip(os.sep) + os.sep):
        raise UnsafeTarget([f"{shown}: a link leads to {real}, outside of {root}"])


def make_directories(path: Path) -> List[Path]:
    """Makes a directory and its parents, each with mode 0750; returns those it made, the deepest first.

    `Path.mkdir(parents=True)` gives the mode to the last one only. Raises `OSError`.
    """
    missing = [directory for directory in (path, *path.parents) if not os.path.lexists(directory)]
    for directory in reversed(missing):
        with suppress(FileExistsError):  # another process was faster
            directory.mkdir(mode=0o750)
    return missing


class TargetDir:
    """A directory that files are written into, made if it is missing; once open, links cannot redirect it.

    Raises `UnsafeTarget` if a link leads out of `root`, and `OSError`.
    """

    def __init__(self, path: str, root: str) -> None:
        contained(Path(path, "x"), Path(root))
        self._made = make_directories(Path(path))
        self.path = path
        self.handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:  # a link may have come since the first check
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

    def create(self, name: str, temporary: str = "") -> Tuple[str, int]:
        """Creates an unfinished file for `name`, locked while it is open. Returns its name and descriptor.

        Without a `temporary` name it gets one that nobody else has. Raises `FileExistsError`.
        """
        temporary = temporary or unfinished_name(name)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        file = os.open(temporary, flags, 0o640, dir_fd=self.handle)
        lock(file)
        return temporary, file

    def resume(self, temporary: str, size: int) -> Optional[int]:
        """Opens and locks an unfinished file of an earlier run; one of another size in bytes is removed.

        None if there is none, or it may be that of another process.
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
        """Whether this is still the name of the open file: nobody has moved, replaced or removed it."""
        try:
            named = os.stat(temporary, dir_fd=self.handle, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(named, os.fstat(file))

    def settle(self, temporary: str, name: str, file: int) -> None:
        """Moves an unfinished file into its place. Raises `FileNotFoundError` if it has lost its name."""
        if not self.has(temporary, file):
            raise FileNotFoundError(errno.ENOENT, "another process took the unfinished file", temporary)
        os.rename(temporary, name, src_dir_fd=self.handle, dst_dir_fd=self.handle)

    def discard(self, temporary: str) -> None:
        """Removes an unfinished file, if it exists."""
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=self.handle)


def write_all(file: int, data: memoryview, offset: int) -> None:
    """Writes all the data at an offset of an open file. Raises `OSError`, also for a full disk."""
    done = 0
    while done < len(data):
        written = os.pwrite(file, data[done:], offset + done)
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done += written


def write_verified(target: Path, pieces: Iterable[bytes], size: int, md5: Optional[str]) -> None:
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
            directory.settle(temporary, target.name, file)
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


def _fill(file: int, pieces: Iterable[bytes], size: int, md5: Optional[str]) -> None:
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
