"""Whether the kernel killed a process because memory ran out: read from its own counters."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator, Optional, Tuple


class OomCounters:
    """The `oom_kill` counters of this container's control group and of the machine, at the time of creation.

    Sources: the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst; `/proc/vmstat`
    counts for the whole machine (Linux 4.13).
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        counted = ((files, _counter(files[0])) for files in _group_files(root))
        self._group = next(((files, before) for files, before in counted if before is not None), None)
        self._machine_before = _counter(root / "proc/vmstat")

    def evidence(self) -> Optional[str]:
        """What the kernel has killed since then; None if nothing."""
        if self._group is not None:
            (events, limit), before = self._group
            now = _counter(events)
            if now is not None and now > before:
                size = _text(limit).strip()
                allowed = f" (limit {int(size) >> 20} MiB)" if size.isdecimal() else ""
                return f"the kernel killed {now - before} processes of this container{allowed}"
        now = _counter(self._root / "proc/vmstat")
        if now is not None and self._machine_before is not None and now > self._machine_before:
            return f"the kernel killed {now - self._machine_before} processes of this machine"
        return None


def _group_files(root: Path) -> Iterator[Tuple[Path, Path]]:
    """Where the counter and the limit of this process's control group may be, the likeliest place first.

    In a container, the path in /proc/self/cgroup may be that of the host, while the group is mounted as root.
    """
    mounted = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            for place in (mounted / path.lstrip("/"), mounted):
                yield place / "memory.events", place / "memory.max"
        elif "memory" in controllers.split(","):
            for place in (mounted / "memory" / path.lstrip("/"), mounted / "memory"):
                yield place / "memory.oom_control", place / "memory.limit_in_bytes"


def _counter(file: Path) -> Optional[int]:
    for line in _text(file).splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.strip().isdecimal():
            return int(value)
    return None


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
