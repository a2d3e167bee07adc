"""Whether the disks have room for a download, known before its first byte."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

from path_mapping.planning.local_tree import existing


class SpaceNeed(NamedTuple):
    """What a target needs: bytes, files (inodes), and the size of the largest file that is replaced.

    While a file is replaced, both versions are on the disk.
    """

    size: int = 0
    files: int = 0
    largest: int = 0

    def plus(self, size: int, replaced: Optional[int]) -> SpaceNeed:
        """With one more file; `replaced` is the size of the file in its place, None if there is none."""
        if replaced is None:
            return SpaceNeed(self.size + size, self.files + 1, self.largest)
        return SpaceNeed(self.size + max(0, size - replaced), self.files, max(self.largest, size))


class FreeSpace(NamedTuple):
    """The free bytes and inodes of a disk; None if the file system does not count inodes."""

    size: int
    files: Optional[int]


def shortages(needs: Dict[Path, SpaceNeed], free: Dict[Path, Tuple[int, FreeSpace]]) -> List[str]:
    """What does not fit; `free` has each target's device and the free space of that. Pure."""
    problems: List[str] = []
    for device in dict.fromkeys(device for device, _ in free.values()):
        targets = [target for target in needs if free[target][0] == device]
        room = free[targets[0]][1]
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


def free_space(target: Path) -> Tuple[int, FreeSpace]:
    """The device on which the target is, or will be, and its space for users other than root."""
    found = next(existing(target))
    status = os.statvfs(found)
    files = status.f_favail if status.f_files else None
    return os.stat(found).st_dev, FreeSpace(status.f_bavail * status.f_frsize, files)
