"""The files of an output on this node's disk, ma_boot's directories beside them, and snapshots of steps.

A snapshot has hard links to the files of a step: the framework's rotation cannot remove it before it is
uploaded.
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

from ma_boot.node.checkpoints.layouts.layout import Layout
from ma_boot.node.checkpoints.layouts.step_names import Seen
from ma_boot.node.checkpoints.records.keys import OWN
from ma_boot.node.checkpoints.steps import TakenStep
from path_mapping.localfs.source_file import FileChanged, FileState, chunks, crc64, state_of
from path_mapping.planning.local_tree import files_below
from path_mapping.transfer.periodic import open_for_writing

# Bytes; a larger file names no step.
_LONGEST_POINTER = 4096

# Names of the directories that `own_directory` is called with.
NAMES = ("aside", "sending", "calls")


class Tree(NamedTuple):
    """The files below a directory with their states, and the problems of other paths."""

    files: dict[str, FileState]
    errors: dict[str, str]


def own_directory(root: Path, name: str) -> Path:
    """Returns a directory of ma_boot: beside an output, or inside it if links or writes fail there.

    Some loaders search the whole output, hidden directories too. Hard links need the same disk.
    """
    parent = root.parent
    with suppress(OSError):
        alike = not root.exists() or os.stat(parent).st_dev == os.stat(root).st_dev
        if alike and (not parent.exists() or os.access(parent, os.W_OK)):
            return parent / f".{root.name}.{name}"
    return inside(root, name)


def inside(root: Path, name: str) -> Path:
    """Returns a directory of ma_boot inside an output: on the same disk, so that files move by a rename."""
    return root / OWN / name


def is_own(root: Path, path: str) -> bool:
    """Returns whether an absolute path is in a directory of ma_boot for the output at `root`."""
    return f"{path}/".startswith(
        (f"{root / OWN}/", *(f"{root.parent}/.{root.name}.{name}/" for name in NAMES))
    )


def tree(root: Path) -> Tree:
    """Lists the files below a directory, without those of ma_boot; none if it does not exist."""
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
    """Returns the times of files as a single look shows them: each came when it was last changed."""
    return {path: Seen(state.mtime_ns / 1e9, state.mtime_ns / 1e9) for path, state in files.items()}


class FileHistory:
    """The files of an output over several looks at the disk.

    A file that has not changed for `rest_seconds` is at rest. `rewritten` are files that had come to rest,
    and were then written again.
    """

    def __init__(self, root: Path, rest_seconds: float) -> None:
        self.rewritten: set[str] = set()
        self._root = root
        self._rest_seconds = rest_seconds
        # The last state of each file, and the time at which it was first seen.
        self._since: dict[str, tuple[FileState, float]] = {}
        # The time at which each file was first seen.
        self._came: dict[str, float] = {}
        # Files that were not at rest when a process died.
        self._cut: dict[str, FileState] = {}
        self._looked = time.monotonic()

    def look(self, here: Tree) -> None:
        """Notes since when files have their state; a file that is open for writing counts as changed now."""
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
        # The scan for open files reads /proc for each process, so it is made for new candidates only.
        rested = self.resting(here) - resting
        if rested:
            written = open_for_writing([self._root])
            for path in rested:
                if str(self._root / path) in written:
                    self._since[path] = (here.files[path], self._looked)

    def cut(self, here: Tree) -> None:
        """Notes the death of a process: files not at rest by now never are in their present state."""
        resting = self.resting(here)
        self._cut.update((path, state) for path, state in here.files.items() if path not in resting)

    def resting(self, here: Tree) -> set[str]:
        """Returns the files that were at rest at the last look, and have not changed since."""
        return {
            path
            for path, (state, since) in self._since.items()
            if here.files.get(path) == state
            and self._looked - since >= self._rest_seconds
            and self._cut.get(path) != state
        }

    def seen(self, paths: Iterable[str]) -> dict[str, Seen]:
        """Returns the times of these files; the present time for a file that was not seen before."""
        now = time.monotonic()
        return {
            path: Seen(self._came.get(path, now), self._since[path][1] if path in self._since else now)
            for path in paths
        }


def read_pointers(root: Path, layout: Layout, files: Mapping[str, FileState]) -> dict[str, str]:
    """Returns the contents of the small files that name a step, by path."""
    contents = {}
    for path in filter(layout.is_pointer, files):
        with suppress(OSError):
            if files[path].size <= _LONGEST_POINTER:
                contents[path] = (root / path).read_text(encoding="utf-8", errors="replace")
    return contents


def content_crc(path: Path, check: Callable[[], None]) -> int:
    """Returns the CRC-64 of a file; `check` is called often and may raise. Raises `OSError`."""
    crc = 0
    for piece in chunks(path):
        check()
        crc = crc64(piece, crc)
    return crc


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A step that was taken, whose files are in `directory` with these states.

    `linked`: the files are the framework's own, by hard links, so they may still change. `in_place`: it is
    the output's own directory, from which files may also vanish.
    """

    taken: TakenStep
    directory: Path
    files: Mapping[str, FileState]
    linked: bool
    in_place: bool = False

    @property
    def size(self) -> int:
        """Size in bytes."""
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
        """Removes the snapshot, but not the framework's files."""
        if not self.in_place:
            shutil.rmtree(self.directory, ignore_errors=True)


class Snapshots:
    """Makes the snapshots of an output; falls back to the framework's own files where that fails."""

    def __init__(self, root: Path, say: Callable[[str], None]) -> None:
        self._root = root
        self._say = say
        self._number = 0
        self._has_failed = False

    def take(self, taken: TakenStep, rewritten: AbstractSet[str]) -> Snapshot:
        """Makes a snapshot; files that may be `rewritten` are copied. Raises `FileChanged`."""
        self._number += 1
        directory = own_directory(self._root, "sending") / str(self._number)
        try:
            return take_snapshot(taken, self._root, directory, rewritten)
        except FileChanged:
            raise
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                self._say(
                    f"checkpoints: from step {taken.step.name} on, steps are uploaded from where the "
                    f"training has them, as no snapshot can be made ({error.strerror}): a step that is "
                    "removed meanwhile is lost"
                )
            return Snapshot(taken, self._root, taken.files, linked=True, in_place=True)


def take_snapshot(
    taken: TakenStep, root: Path, directory: Path, rewritten: AbstractSet[str] = frozenset()
) -> Snapshot:
    """Puts the files of a step below `directory`, a new one: as hard links, or as copies from another disk.

    A link shares what is written in place, so files that may be `rewritten` are copied where there is space.

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
        # All files existed, unchanged, at the same moment.
        for path, state in taken.files.items():
            if state_of(os.stat(root / path)) != state:
                raise FileChanged(f"{path} changed")
    except BaseException as error:
        shutil.rmtree(directory, ignore_errors=True)
        if isinstance(error, FileNotFoundError):
            raise FileChanged(str(error)) from None
        raise
    return Snapshot(taken, directory, files, linked)


def free_bytes(directory: Path) -> int:
    """Returns the free bytes of the disk of a directory, which need not exist."""
    return shutil.disk_usage(next(path for path in (directory, *directory.parents) if path.exists())).free


def _copy(source: str, target: Path, state: FileState) -> None:
    # The framework needs as much space for its next step.
    if free_bytes(target.parent) < 2 * state.size:
        raise OSError(errno.ENOSPC, f"too little space for a copy of {state.size:,} bytes")
    shutil.copyfile(source, target)
