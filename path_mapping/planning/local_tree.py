"""Files below a local path in the order of their keys, and the free space of its disk."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from path_mapping.localfs.names import is_temporary, shown
from path_mapping.planning.plan import LocalEntry
from path_mapping.planning.record import is_record


def local_entry(path: str | Path) -> LocalEntry | None:
    """Returns the entry at a path, or of a link itself; None if it does not exist. Raises `OSError`."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
    return LocalEntry(kinds.get(stat.S_IFMT(status.st_mode), "special"), status.st_size, status.st_mtime_ns)


def files_below(root: Path) -> Iterator[tuple[str, LocalEntry]]:
    """Yields every file below the directory with its name, and `name/` for each empty directory.

    Links to files inside the directory are files; links to directories inside are skipped, as those are
    walked anyway. Links that lead outside or are dangling have a problem, and so have directories that cannot
    be read. Sockets, pipes, devices and unfinished files are special. Records are skipped.
    """
    top, inside = str(root), os.path.realpath(root) + os.sep
    # A stack, not a recursion: a tree may be deeper than the recursion limit of Python.
    waiting = [""]
    while waiting:
        name = waiting.pop()
        path = os.path.join(top, name)
        if name and not name.endswith("/"):
            entry = _file(path, inside)
            if entry is not None:
                yield name, entry
            continue
        try:
            names = _sorted(path)
            if not names and name:
                yield name, LocalEntry("directory", 0, os.stat(path).st_mtime_ns)
        except FileNotFoundError:
            continue  # removed since it was listed
        except OSError as error:
            yield name or "./", LocalEntry("directory", 0, 0, f"cannot be read: {error.strerror}")
            continue
        waiting.extend(name + child for child in reversed(names))


def _sorted(directory: str) -> list[str]:
    """Returns the names in a directory. The name of a directory is sorted with its `/`, as keys are."""
    with os.scandir(directory) as entries:
        names = [f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name for entry in entries]
    return sorted(name for name in names if not is_record(name))


def _file(path: str, inside: str) -> LocalEntry | None:
    """Returns the entry of a file; None if it was removed meanwhile, or is a link to a directory inside."""
    if is_temporary(os.path.basename(path)):
        return LocalEntry("special", 0, 0, "it has the name of an unfinished file of ma_boot")
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            problem = _link_problem(path, inside)
            if problem:
                return LocalEntry("link", 0, 0, problem)
            status = os.stat(path)
            if stat.S_ISDIR(status.st_mode):
                return None
    except FileNotFoundError:
        return None
    except OSError as error:
        return LocalEntry("file", 0, 0, f"cannot be read: {error.strerror}")
    if not stat.S_ISREG(status.st_mode):
        return LocalEntry("special", 0, 0, "neither a file nor a directory")
    return LocalEntry("file", status.st_size, status.st_mtime_ns)


def _link_problem(path: str, inside: str) -> str | None:
    real = os.path.realpath(path)
    if not (real + os.sep).startswith(inside):
        return f"a link out of the output, to {shown(Path(real))}"
    return None if os.path.exists(path) else f"a link to nothing, {shown(Path(real))}"


def folds_case(root: Path) -> bool:
    """Tells whether the disk ignores case, by a name that exists: nothing is written."""
    directory = _nearest(root)
    if not any(letter.isalpha() for letter in directory.name):
        return False
    try:
        return os.path.samefile(directory, directory.with_name(directory.name.swapcase()))
    except OSError:
        return False


def _nearest(path: Path) -> Path:
    """Returns the path, or its nearest ancestor that exists."""
    return next(parent for parent in (path, *path.parents) if parent.exists())


class SpaceNeed(NamedTuple):
    """Space for the files of a target: bytes, inodes, and the size of the largest file that is replaced.

    While a file is replaced, both versions are on the disk.
    """

    size: int = 0
    files: int = 0
    largest: int = 0

    def plus(self, size: int, replaced: int | None) -> SpaceNeed:
        """Adds a file; `replaced` is the size of the file in its place, None for a new one."""
        if replaced is None:
            return SpaceNeed(self.size + size, self.files + 1, self.largest)
        return SpaceNeed(self.size + max(0, size - replaced), self.files, max(self.largest, size))


class FreeSpace(NamedTuple):
    """The free bytes and inodes of a disk; None if the file system does not count inodes."""

    device: int
    size: int
    files: int | None


def shortages(needs: dict[Path, SpaceNeed], free: dict[Path, FreeSpace]) -> list[str]:
    """Returns a message for each disk that is too small; `free` is the space for each target. Pure."""
    problems: list[str] = []
    for device in dict.fromkeys(space.device for space in free.values()):
        targets = [target for target in needs if free[target].device == device]
        room = free[targets[0]]
        size = sum(needs[target].size for target in targets) + max(needs[t].largest for t in targets)
        files = sum(needs[target].files for target in targets)
        where = ", ".join(map(str, targets))
        if size > room.size:
            problems.append(
                f"{where}: {size / 1e9:.3f} GB needed, {room.size / 1e9:.3f} GB free:"
                " use another disk, or less data"
            )
        if room.files is not None and files > room.files:
            problems.append(f"{where}: {files} inodes needed, {room.files} free: use another disk")
    return problems


def free_space(target: Path) -> FreeSpace:
    """Returns the space for users other than root on the disk where the target is, or will be."""
    directory = _nearest(target)
    status = os.statvfs(directory)
    files = status.f_favail if status.f_files else None
    return FreeSpace(os.stat(directory).st_dev, status.f_bavail * status.f_frsize, files)
