"""The files of an output on this node's disk, and the directories of ours beside them."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Callable, Dict, Mapping, NamedTuple

from ma_boot.checkpoints.keys import OWN
from ma_boot.checkpoints.layout import Layout
from path_mapping.localfs import FileState, chunks, crc64, state_of
from path_mapping.planning import files_below

_LONGEST_POINTER = 4096  # bytes of a file that names a step


class Tree(NamedTuple):
    """The files below a directory with their states, and what is wrong with other paths."""

    files: Dict[str, FileState]
    errors: Dict[str, str]


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
    files: Dict[str, FileState] = {}
    errors: Dict[str, str] = {}
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


def pointers(root: Path, layout: Layout, files: Mapping[str, FileState]) -> Dict[str, str]:
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
