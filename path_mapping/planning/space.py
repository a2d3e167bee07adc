"""Whether the disks have room for what is to come: before the first byte, not after the last that fits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

from path_mapping.planning.local_tree import existing


class SpaceNeed(NamedTuple):
    """Bytes and files that a target will need; `largest` file that is replaced, which is there twice then."""

    size: int = 0
    files: int = 0
    largest: int = 0

    def plus(self, size: int, before: Optional[int]) -> SpaceNeed:
        """One more file of this size; `before` is that of the file it replaces."""
        if before is None:
            return SpaceNeed(self.size + size, self.files + 1, self.largest)
        return SpaceNeed(self.size + max(0, size - before), self.files, max(self.largest, size))


class FreeSpace(NamedTuple):
    """What a disk has for us; None for a file system that does not count its files."""

    size: int
    files: Optional[int]


def shortages(needs: Dict[Path, SpaceNeed], free: Dict[Path, Tuple[int, FreeSpace]]) -> List[str]:
    """What does not fit; `free` has for each target its device, and what that has. Targets share devices."""
    problems: List[str] = []
    for device in dict.fromkeys(device for device, _ in free.values()):
        targets = [target for target in needs if free[target][0] == device]
        room = free[targets[0]][1]
        size = sum(needs[target].size for target in targets) + max(needs[t].largest for t in targets)
        files = sum(needs[target].files for target in targets)
        where = ", ".join(map(str, targets))
        if size > room.size:
            needed, free_now = f"{size / 1e9:.3f} GB", f"{room.size / 1e9:.3f} GB"
            problems.append(
                f"{where}: needed are {needed}, free {free_now}: choose another disk, or less data"
            )
        if room.files is not None and files > room.files:
            problems.append(f"{where}: needed are {files} inodes, free {room.files}: choose another disk")
    return problems


def free_space(target: Path) -> Tuple[int, FreeSpace]:
    """The device that the target is, or will be, on, and its room for users that are not root."""
    there = next(existing(target))
    found = os.statvfs(there)
    files = found.f_favail if found.f_files else None
    return os.stat(there).st_dev, FreeSpace(found.f_bavail * found.f_frsize, files)
