"""The files of a compile cache on the disk."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ma_boot.node.caches.compilers import is_temporary_of_compiler
from ma_boot.node.caches.options import CacheOptions
from ma_boot.node.checkpoints.records.keys import OWN
from ma_boot.wording import size
from path_mapping.localfs.names import name_problem
from path_mapping.localfs.source_file import FileState, state_of


class CacheFiles(NamedTuple):
    """The files of a cache with their states, by path; `is_cut` if there are too many to list."""

    files: Mapping[str, FileState]
    is_cut: bool = False

    @property
    def size(self) -> int:
        """Size in bytes."""
        return sum(state.size for state in self.files.values())

    def over_bounds(self, options: CacheOptions) -> str:
        """Returns why a cache with these files is too large; empty if it is not."""
        if self.is_cut:
            return f"it has more than {options.max_files:,} files (max_files)"
        return too_large(len(self.files), self.size, options)


def too_large(files: int, length: int, options: CacheOptions) -> str:
    """Returns why a cache of so many files and bytes is too large; empty if it is not. Pure."""
    if files > options.max_files:
        return f"it has {files:,} files, at most {options.max_files:,} are kept (max_files)"
    if length > options.max_bytes:
        return f"it has {size(length)}, at most {size(options.max_bytes)} are kept (max_bytes)"
    return ""


def list_cache(root: Path, options: CacheOptions) -> CacheFiles:
    """Lists the regular files below a directory, without locks and unfinished ones; links are left out.

    Raises `OSError` for anything but files that vanish meanwhile.
    """
    files: dict[str, FileState] = {}
    waiting = [""]
    while waiting:
        below = waiting.pop()
        try:
            names = os.listdir(root / below)
        except FileNotFoundError:
            continue
        for name in names:
            path = os.path.join(below, name)
            try:
                status = os.lstat(root / path)
            except FileNotFoundError:
                continue
            if path == OWN or is_temporary_of_compiler(path):
                continue
            if stat.S_ISDIR(status.st_mode):
                waiting.append(path)
            elif stat.S_ISREG(status.st_mode) and name_problem(path) is None:
                files[path] = state_of(status)
                if len(files) > options.max_files:
                    return CacheFiles(files, is_cut=True)
    return CacheFiles(files)
