"""The files of an output on this node's disk, without those of ours."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, Dict

from path_mapping.localfs import FileState, chunks, crc64, state_of
from path_mapping.planning import files_below
from path_mapping.sets import OWN


def scratch_of(root: Path, name: str) -> Path:
    """A directory of ours inside an output: on the same disk, so that files move by a rename."""
    return root / OWN / name


def aside_of(root: Path) -> Path:
    """The directory for sets that loaders must not find: beside the output, where it is on the same disk.

    Some loaders search all directories of an output, also hidden ones.
    """
    parent = root.parent
    if os.access(parent, os.W_OK) and os.stat(parent).st_dev == os.stat(root).st_dev:
        return parent / f".{root.name}.aside"
    return scratch_of(root, "aside")


def local_files(root: Path) -> Dict[str, FileState]:
    """The files below a directory with their states, by their paths relative to it; none if there is none."""
    found: Dict[str, FileState] = {}
    if not root.is_dir():
        return found
    for name, entry in files_below(root):
        if entry.kind != "file" or entry.problem or name.startswith(f"{OWN}/"):
            continue
        try:
            found[name] = state_of(os.stat(root / name))
        except OSError:
            continue  # removed since
    return found


def content_crc(path: Path, check: Callable[[], None]) -> int:
    """The CRC-64 of a file; `check` is called often and may raise. Raises `OSError`."""
    crc = 0
    for piece in chunks(path):
        check()
        crc = crc64(piece, crc)
    return crc
