"""Steps as they were at one moment: links to their files, which no rotation of the framework takes away."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping

from ma_boot.checkpoints.steps import Taken
from path_mapping.localfs import FileChanged, FileState, state_of


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


def take_snapshot(taken: Taken, root: Path, directory: Path) -> Snapshot:
    """The files of a step below `directory`, which is new: as links, or as copies from another disk.

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
