"""Where the doctor looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Optional, Tuple


@dataclass(frozen=True)
class System:
    """The environment variables and host name of this process, and paths of the machine.

    `places` are mount points with the free space that ModelArts' own check before a job requires, in GB.
    """

    environ: Mapping[str, str]
    hostname: str
    platform: Optional[str] = None
    driver: str = "/usr/local/Ascend/driver"
    devices: str = "/dev"
    places: Tuple[Tuple[str, int], ...] = (("/", 32), ("/cache", 32), ("/dev/shm", 1))
