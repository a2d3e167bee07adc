"""Where the kernel counts the memory of this container."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator, NamedTuple


class MemoryGroup(NamedTuple):
    """The files of a control group's memory: `events` has the counter `oom_kill`."""

    events: Path
    limit: Path
    usage: Path
    stat: Path


def memory_groups(root: Path = Path("/")) -> Iterator[MemoryGroup]:
    """Where the control group of this process may be, the likeliest place first; its files may not exist.

    In a container, the path in /proc/self/cgroup may be that of the host, while the group is mounted as root.
    Sources: the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
    """
    mounted = root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            for at in (mounted / path.lstrip("/"), mounted):
                yield MemoryGroup(
                    at / "memory.events", at / "memory.max", at / "memory.current", at / "memory.stat"
                )
        elif "memory" in controllers.split(","):
            for at in (mounted / "memory" / path.lstrip("/"), mounted / "memory"):
                yield MemoryGroup(
                    at / "memory.oom_control", at / "memory.limit_in_bytes", at / "memory.usage_in_bytes",
                    at / "memory.stat",
                )  # fmt: skip
