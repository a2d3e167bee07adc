"""Control groups of this container: memory, limits of processes, and out-of-memory kills."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ma_boot.errors import LimitReached
from ma_boot.processes.orphan_guard import process_stats
from ma_boot.wording import Message


class MemoryGroup(NamedTuple):
    """Files of a control group's memory controller; `events` has the counter `oom_kill`."""

    events: Path
    limit: Path
    usage: Path
    stat: Path


class OomCounters:
    """Counters `oom_kill` of this container's control group and of the machine, read at creation.

    The counter of the machine is in `/proc/vmstat` (since Linux 4.13).
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        counted = ((group, _counter(group.events)) for group in memory_groups(root))
        self._group = next(((group, before) for group, before in counted if before is not None), None)
        self._machine_before = _counter(root / "proc/vmstat")

    def evidence(self) -> str | None:
        """Describes the out-of-memory kills since creation; None if there were none."""
        if self._group is not None:
            group, before = self._group
            now = _counter(group.events)
            if now is not None and now > before:
                size = file_text(group.limit).strip()
                killed = _processes(now - before)
                if not size.isdecimal():
                    return Message.of("the kernel killed {} of this container", killed)
                limit = int(size) >> 20
                return Message.of("the kernel killed {} of this container (limit {} MiB)", killed, limit)
        now = _counter(self._root / "proc/vmstat")
        if now is not None and self._machine_before is not None and now > self._machine_before:
            killed = _processes(now - self._machine_before)
            return Message.of("the kernel killed {} of this machine, perhaps of another container", killed)
        return None


def memory_groups(root: Path = Path("/")) -> Iterator[MemoryGroup]:
    """Yields the candidate paths of this process's memory group, likeliest first; they may not exist."""
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


def _directories(controller: str, root: Path) -> Iterator[tuple[Path, bool]]:
    """Yields candidate directories of a control group, with True for version 1.

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
    return Message.of("{} process" if count == 1 else "{} processes", count)


def _counter(file: Path) -> int | None:
    for line in file_text(file).splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.strip().isdecimal():
            return int(value)
    return None


def file_text(file: Path) -> str:
    """Returns the text of a file of the kernel or the platform; empty if it is missing or unreadable."""
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


# CPython's message for any error of pthread_create(3); there is no error number.
_NO_THREAD = "can't start new thread"
_NEEDED = (
    "every process and every thread counts: each rank with what its libraries start, often a thread for "
    "each core (OMP_NUM_THREADS), and some 5 of ma_boot, more while files are moved: raise the limit, or "
    "start fewer"
)


def limit_reached(error: BaseException | None) -> LimitReached | None:
    """Explains an error at a limit of processes, threads or open files; None for any other error."""
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        return no_more_processes(Message("cannot start a thread"))
    if not isinstance(error, OSError):
        return None
    if error.errno in (errno.EMFILE, errno.ENFILE):
        open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return LimitReached(
            Message.of("{}: ulimit -n is {}: raise it, or start fewer processes", error.strerror, open_files)
        )
    if error.errno in (errno.EAGAIN, errno.ENOMEM) and _file_of(error) == subprocess.__file__:
        return no_more_processes(Message.of("cannot start a process: {}", error.strerror))
    return None


def no_more_processes(what: str) -> LimitReached:
    """Returns the error at the limit of processes and threads; `what` is the failed action."""
    limits = "; ".join(_limits()) or Message("no limit is visible here")
    return LimitReached(Message.of("{}: {}; {}", what, limits, Message(_NEEDED)))


def _file_of(error: BaseException) -> str:
    """Returns the source file that raised the error."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at.tb_frame.f_code.co_filename if at is not None else ""


def _limits() -> Iterator[str]:
    """Describes the limits of processes and threads, and of the stack of a thread."""
    of_user, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if of_user != resource.RLIM_INFINITY and os.geteuid() != 0:  # root is exempt
        yield f"ulimit -u is {of_user}, and uid {os.getuid()} has {_own_threads()} in this container"
    for group in dict.fromkeys(at for at, _ in _directories("pids", Path("/"))):
        limit, used = (file_text(group / name).strip() for name in ("pids.max", "pids.current"))
        if limit.isdecimal():
            yield f"pids.max of this container is {limit}, and {used} are in use ({group})"
    stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    if stack == resource.RLIM_INFINITY or stack > 1 << 30:
        size = "unlimited" if stack == resource.RLIM_INFINITY else stack >> 10
        yield f"ulimit -s is {size}: each thread needs memory for its stack"


def _own_threads() -> int:
    """Counts the threads of this user's processes in this PID namespace."""
    threads = 0
    for pid, stat in process_stats().items():
        try:
            threads += int(stat[17]) if os.stat(f"/proc/{pid}").st_uid == os.geteuid() else 0
        except OSError:  # it has ended
            continue
    return threads
