"""Regular files of the directories with a job's logs. Links are never followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

# Files and directories that are looked at, and levels of directories: a home directory may be given.
MOST_ENTRIES = 200_000
MOST_LEVELS = 12


class FoundFile(NamedTuple):
    """A file below a directory of logs: its path, its name relative to that, size and time (Unix)."""

    path: Path
    name: str
    bytes: int
    modified: float


def log_roots(places: Sequence[Path]) -> list[Path]:
    """Returns the directories of the logs: those that were given, and those of files."""
    return list(dict.fromkeys(place if place.is_dir() else place.parent for place in places))


def files_below(roots: Sequence[Path]) -> list[FoundFile]:
    """Returns the regular files below the directories, those of several under numbered names."""
    found: list[FoundFile] = []
    for number, root in enumerate(roots):
        prefix = "logs" if len(roots) == 1 else f"logs-{number}"
        for path, status in _walk(root):
            if len(found) == MOST_ENTRIES:
                return found
            name = f"{prefix}/{path.relative_to(root)}"
            found.append(FoundFile(path, name, status.st_size, status.st_mtime))
    return found


def _walk(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yields regular files with their status; unreadable directories are skipped."""
    waiting, seen = [(root, 0)], 0
    while waiting and seen < MOST_ENTRIES:
        directory, level = waiting.pop()
        with suppress(OSError), os.scandir(directory) as entries:
            for entry in entries:
                seen += 1
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        yield Path(entry.path), status
                    elif stat.S_ISDIR(status.st_mode) and level < MOST_LEVELS:
                        waiting.append((Path(entry.path), level + 1))
