"""Where the kernel counts the memory and the processes of this container, and whether it killed any."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator, NamedTuple, Optional, Tuple


class MemoryGroup(NamedTuple):
    """The files of a control group's memory: `events` has the counter `oom_kill`."""

    events: Path
    limit: Path
    usage: Path
    stat: Path


class OomCounters:
    """The `oom_kill` counters of this container's control group and of the machine, at the time of creation.

    `/proc/vmstat` counts for the whole machine (Linux 4.13).
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        counted = ((group, _counter(group.events)) for group in memory_groups(root))
        self._group = next(((group, before) for group, before in counted if before is not None), None)
        self._machine_before = _counter(root / "proc/vmstat")

    def evidence(self) -> Optional[str]:
        """What the kernel has killed since then; None if nothing."""
        if self._group is not None:
            group, before = self._group
            now = _counter(group.events)
            if now is not None and now > before:
                size = file_text(group.limit).strip()
                allowed = f" (limit {int(size) >> 20} MiB)" if size.isdecimal() else ""
                return f"the kernel killed {_processes(now - before)} of this container{allowed}"
        now = _counter(self._root / "proc/vmstat")
        if now is not None and self._machine_before is not None and now > self._machine_before:
            killed = _processes(now - self._machine_before)
            return f"the kernel killed {killed} of this machine, perhaps of another container"
        return None


def memory_groups(root: Path = Path("/")) -> Iterator[MemoryGroup]:
    """Where the control group of this process may be, the likeliest place first; its files may not exist."""
    for at, is_first_version in _directories("memory", root):
        if is_first_version:
            yield MemoryGroup(
                at / "memory.oom_control", at / "memory.limit_in_bytes", at / "memory.usage_in_bytes",
                at / "memory.stat",
            )  # fmt: skip
        else:
            yield MemoryGroup(
                at / "memory.events", at / "memory.max", at / "memory.current", at / "memory.stat"
            )


def process_groups(root: Path = Path("/")) -> Iterator[Path]:
    """The directories that may have `pids.max` and `pids.current`, as `memory_groups`; each once."""
    yield from dict.fromkeys(at for at, _ in _directories("pids", root))


def _directories(controller: str, root: Path) -> Iterator[Tuple[Path, bool]]:
    """Where a control group may be, and whether it is of the first version.

    In a container, the path in /proc/self/cgroup may be that of the host, while the group is mounted as root.
    Sources: the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/*.rst.
    """
    mounted = root / "sys/fs/cgroup"
    for line in file_text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            yield from ((at, False) for at in (mounted / path.lstrip("/"), mounted))
        elif controller in controllers.split(","):
            of_controller = mounted / controller
            yield from ((at, True) for at in (of_controller / path.lstrip("/"), of_controller))


def _processes(count: int) -> str:
    return f"{count} process{'' if count == 1 else 'es'}"


def _counter(file: Path) -> Optional[int]:
    for line in file_text(file).splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.strip().isdecimal():
            return int(value)
    return None


def file_text(file: Path) -> str:
    """The text of a file of the kernel, or of the platform; empty where it has none, or it cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
