"""The files of an output on this node's disk, our directories beside them, and snapshots of steps.

A snapshot has links to the files of a step, which no rotation of the framework takes away.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import Iterable, Mapping, Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, NamedTuple

from ma_boot.node.checkpoints.keys import OWN
from ma_boot.node.checkpoints.layout import Layout
from ma_boot.node.checkpoints.step_names import Seen
from ma_boot.node.checkpoints.steps import Taken
from path_mapping.localfs.source_file import FileChanged, FileState, chunks, crc64, state_of
from path_mapping.planning.local_tree import files_below
from path_mapping.transfer.periodic import open_for_writing

_LONGEST_POINTER = 4096  # bytes of a file that names a step


class Tree(NamedTuple):
    """The files below a directory with their states, and what is wrong with other paths."""

    files: dict[str, FileState]
    errors: dict[str, str]


def own_directory(root: Path, name: str) -> Path:
    """A directory of ours: beside the output, as some loaders search all of it, also what is hidden.

    Inside of it where that is another disk, or may not be written to.
    """
    parent = root.parent
    with suppress(OSError):
        alike = not root.exists() or os.stat(parent).st_dev == os.stat(root).st_dev
        if alike and (not parent.exists() or os.access(parent, os.W_OK)):
            return parent / f".{root.name}.{name}"
    return inside(root, name)


def inside(root: Path, name: str) -> Path:
    """A directory of ours inside an output: on the same disk, so that files move by a rename."""
    return root / OWN / name


def is_own(root: Path, path: str) -> bool:
    """Whether an absolute path is in a directory of ours of the output at `root`."""
    return f"{path}/".startswith(
        (f"{root / OWN}/", *(f"{root.parent}/.{root.name}.{name}/" for name in NAMES))
    )


NAMES = ("aside", "sending", "said")  # of the directories that `own_directory` is asked for


def tree(root: Path) -> Tree:
    """What is below a directory, without what is ours; nothing if it does not exist."""
    files: dict[str, FileState] = {}
    errors: dict[str, str] = {}
    if not root.is_dir():
        return Tree(files, errors)
    for name, entry in files_below(root):
        if name.startswith(f"{OWN}/") or entry.kind == "special":
            continue
        if entry.problem:
            errors[name] = entry.problem
        elif entry.kind == "file":
            with suppress(OSError):  # removed since
                status = os.stat(root / name)
                if stat.S_ISREG(status.st_mode):
                    files[name] = state_of(status)
    return Tree(files, errors)


def seen_at_once(files: Mapping[str, FileState]) -> dict[str, Seen]:
    """The files as a single look shows them: each came when it was last changed."""
    return {path: Seen(state.mtime_ns / 1e9, state.mtime_ns / 1e9) for path, state in files.items()}


class FileHistory:
    """The files of an output over several looks at the disk; `rest_seconds` without a change are a rest.

    `rewritten` are files that had come to rest, and were then written again.
    """

    def __init__(self, root: Path, rest_seconds: float) -> None:
        self.rewritten: set[str] = set()
        self._root = root
        self._rest_seconds = rest_seconds
        self._since: dict[str, tuple[FileState, float]] = {}  # the last state, and when it was seen first
        self._came: dict[str, float] = {}  # when each file was seen first
        self._cut: dict[str, FileState] = {}  # what had not come to rest when a process died
        self._looked = time.monotonic()

    def look(self, here: Tree) -> None:
        """Notes since when files are as they are; for one that is still open, that is now."""
        self.rewritten.update(
            path
            for path, (state, since) in self._since.items()
            if self._looked - since >= self._rest_seconds and here.files.get(path, state) != state
        )
        resting, self._looked = self.resting(here), time.monotonic()
        for path in here.files:
            self._came.setdefault(path, self._looked)
        self._since = {
            path: self._since[path] if self._since.get(path, (None,))[0] == state else (state, self._looked)
            for path, state in here.files.items()
        }
        rested = self.resting(here) - resting
        if rested:
            written = open_for_writing([self._root])
            for path in rested:
                if str(self._root / path) in written:
                    self._since[path] = (here.files[path], self._looked)

    def cut(self, here: Tree) -> None:
        """A process has died: what has not come to rest by now never does as it is."""
        resting = self.resting(here)
        self._cut.update((path, state) for path, state in here.files.items() if path not in resting)

    def resting(self, here: Tree) -> set[str]:
        """The files that had not changed for long enough when they were last looked at, nor have since."""
        return {
            path
            for path, (state, since) in self._since.items()
            if here.files.get(path) == state
            and self._looked - since >= self._rest_seconds
            and self._cut.get(path) != state
        }

    def seen(self, paths: Iterable[str]) -> dict[str, Seen]:
        """Returns the times of these files; the present time for a file that no look has seen."""
        now = time.monotonic()
        return {
            path: Seen(self._came.get(path, now), self._since[path][1] if path in self._since else now)
            for path in paths
        }


def pointers(root: Path, layout: Layout, files: Mapping[str, FileState]) -> dict[str, str]:
    """The contents of the small files that name a step, by path."""
    contents = {}
    for path in filter(layout.is_pointer, files):
        with suppress(OSError):
            if files[path].size <= _LONGEST_POINTER:
                contents[path] = (root / path).read_text(encoding="utf-8", errors="replace")
    return contents


def content_crc(path: Path, check: Callable[[], None]) -> int:
    """The CRC-64 of a file; `check` is called often and may raise. Raises `OSError`."""
    crc = 0
    for piece in chunks(path):
        check()
        crc = crc64(piece, crc)
    return crc


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A step that was taken, whose files are in `directory` with these states.

    `linked`: they may still change with those of the framework, as they are the same. `in_place`: it is the
    output's own directory, from which they may also vanish.
    """

    taken: Taken
    directory: Path
    files: Mapping[str, FileState]
    linked: bool
    in_place: bool = False

    @property
    def size(self) -> int:
        """Its bytes."""
        return sum(state.size for state in self.files.values())

    def check(self) -> None:
        """Raises `FileChanged` if a file is no longer as it was."""
        for path, state in self.files.items():
            try:
                now = state_of(os.stat(self.directory / path))
            except FileNotFoundError:
                raise FileChanged(f"{path} was removed") from None
            if now != state:
                raise FileChanged(f"{path} was rewritten")

    def drop(self) -> None:
        """Removes it, but not what the framework has."""
        if not self.in_place:
            shutil.rmtree(self.directory, ignore_errors=True)


def take_snapshot(
    taken: Taken, root: Path, directory: Path, rewritten: AbstractSet[str] = frozenset()
) -> Snapshot:
    """The files of a step below `directory`, which is new: as links, or as copies from another disk.

    A link shares what is written in place, so files that are `rewritten` are copied where there is space.

    Raises:
        FileChanged: they are no longer as they were when the step was complete.
        OSError: the disk failed, or has too little space for copies.
    """
    files, linked = {}, True
    try:
        for path, state in taken.files.items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            source = os.path.realpath(root / path)
            try:
                if path in rewritten and free_bytes(directory) >= 2 * state.size:
                    _copy(source, directory / path, state)
                else:
                    os.link(source, directory / path)
            except FileNotFoundError:
                raise FileChanged(f"{path} was removed") from None
            except OSError:  # another disk, or a file system without links
                linked = False
                _copy(source, directory / path, state)
            files[path] = state_of(os.stat(directory / path))
        for path, state in taken.files.items():  # all of them were there at this moment
            if state_of(os.stat(root / path)) != state:
                raise FileChanged(f"{path} changed")
    except BaseException as error:
        shutil.rmtree(directory, ignore_errors=True)
        if isinstance(error, FileNotFoundError):
            raise FileChanged(str(error)) from None
        raise
    return Snapshot(taken, directory, files, linked)


def free_bytes(directory: Path) -> int:
    """The free space of the disk of a directory, which need not exist."""
    return shutil.disk_usage(next(path for path in (directory, *directory.parents) if path.exists())).free


def _copy(source: str, target: Path, state: FileState) -> None:
    if free_bytes(target.parent) < 2 * state.size:  # the framework needs as much for its next step
        raise OSError(errno.ENOSPC, f"too little space for a copy of {state.size:,} bytes")
    shutil.copyfile(source, target)
