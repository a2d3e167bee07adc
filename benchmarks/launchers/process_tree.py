"""What /proc says of the processes below a process, and their certain end; Linux only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import time
from collections.abc import Container
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_SECONDS_PER_TICK = 1 / os.sysconf("SC_CLK_TCK")


def adopt_orphans() -> None:
    """Makes this process the parent of all that its descendants leave behind: nothing gets away."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) is refused")


def below(root: int) -> set[int]:
    """The process's living descendants, without itself."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        fields = _stat(int(entry)) if entry.isdecimal() else []
        if fields and fields[0] not in "ZX":
            children.setdefault(int(fields[1]), []).append(int(entry))
    pids: set[int] = set()
    ahead = [root]
    while ahead:
        new = children.get(ahead.pop(), [])
        pids.update(new)
        ahead.extend(new)
    return pids


def alive(pid: int) -> bool:
    """It exists and is no zombie."""
    fields = _stat(pid)
    return bool(fields) and fields[0] not in "ZX"


def end_all(keep: Container[int] = ()) -> None:
    """SIGKILL for every descendant of this process, until none is left; and their entries are reaped."""
    while True:
        left = [pid for pid in below(os.getpid()) if pid not in keep]
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def cpu_seconds(pid: int) -> float:
    """Processor time so far, to a hundredth of a second; 0 for one that has ended."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) * _SECONDS_PER_TICK if fields else 0.0


def peak_rss(pid: int) -> float:
    """VmHWM in MB; 0 for one that has ended."""
    return _megabytes(pid, "status", "VmHWM")


def pss(pid: int) -> float:
    """Its share of the memory in MB, where pages that several processes have are divided among them."""
    return _megabytes(pid, "smaps_rollup", "Pss")


def _megabytes(pid: int, file: str, name: str) -> float:
    try:
        match = re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{pid}/{file}").read_text(), re.MULTILINE)
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return int(match[1]) * 1024 / 1e6 if match else 0.0


def _stat(pid: int) -> list[str]:
    """/proc/PID/stat from the state on; empty for a process that does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
