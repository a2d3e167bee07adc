"""Resource use of processes, and the CPU time of a process with all its descendants."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from ma_boot.processes.orphan_guard import children_of, process_stats

# Seconds.
_TICK = 1 / os.sysconf("SC_CLK_TCK")
# Share of a core. A process that polls 100 times a second stays below it, even on a slow machine.
IDLE_SHARE = 0.05
# Bytes.
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ProcessUsage(NamedTuple):
    """Process: parent, session, start time, and CPU seconds including its reaped children.

    `rss` is the resident memory in bytes; `of_reaped` is the children's part of `cpu`.
    """

    parent: int
    session: int
    started: str
    cpu: float
    threads: int = 0
    rss: int = 0
    of_reaped: float = 0.0


class CpuMeter:
    """CPU seconds of a worker and all its descendants, in any session; they never decrease.

    A measurement remembers its members, so a descendant that has lost its parent since stays a member.
    When a member ends, the kernel adds its time to the parent that reaps it, so the growth of reaped time
    (inherited) is counted once against the time of ended members (gone). The time of a member that no parent
    has reaped still counts: the kernel drops the times of children whose parent ignores SIGCHLD.
    """

    def __init__(self, pid: int) -> None:
        self.seconds = 0.0
        self._pid = pid
        self._members: dict[int, ProcessUsage] = {}

    def measure(self, processes: Mapping[int, ProcessUsage], reaper: int) -> float:
        """Returns the seconds so far; `reaper` is the process that adopts orphans, with their times."""
        before, self._members = self._members, self._now_in(processes)
        stayed = {pid: usage for pid, usage in before.items() if self._is_member(pid, usage)}
        gone = sum(usage.cpu for pid, usage in before.items() if pid not in stayed and usage.parent != reaper)
        inherited = sum(self._members[pid].of_reaped - usage.of_reaped for pid, usage in stayed.items())
        grown = sum(usage.cpu for usage in self._members.values()) - sum(
            usage.cpu for usage in stayed.values()
        )
        self.seconds += max(0.0, grown - min(gone, inherited))
        return self.seconds

    @property
    def members(self) -> Mapping[int, ProcessUsage]:
        """Processes of the last measurement by pid, zombies included."""
        return self._members

    def adopt(self, pid: int, process: ProcessUsage) -> None:
        """Adds a process that is known to belong to the worker; its earlier CPU time does not count."""
        self._members[pid] = process

    def _is_member(self, pid: int, process: ProcessUsage) -> bool:
        """Returns True for a known process; False for another one with a reused pid."""
        return pid in self._members and self._members[pid].started == process.started

    def _now_in(self, processes: Mapping[int, ProcessUsage]) -> dict[int, ProcessUsage]:
        children = children_of((pid, usage.parent) for pid, usage in processes.items())
        waiting = [pid for pid, usage in processes.items() if pid == self._pid or usage.session == self._pid]
        waiting += [pid for pid, usage in processes.items() if self._is_member(pid, usage)]
        members: dict[int, ProcessUsage] = {}
        while waiting:
            pid = waiting.pop()
            if pid not in members:
                members[pid] = processes[pid]
                waiting += children.get(pid, ())
        return members


def process_usages() -> dict[int, ProcessUsage]:
    """Returns all processes, zombies included: the kernel moves their times only when they are reaped."""
    return {pid: usage_of(stat) for pid, stat in process_stats().items()}


def usage_of(stat: Sequence[str]) -> ProcessUsage:
    """Reads the usage from the fields of /proc/PID/stat (proc(5)) after the program's name."""
    own, of_reaped = (sum(map(int, stat[at : at + 2])) * _TICK for at in (11, 13))
    return ProcessUsage(
        parent=int(stat[1]),
        session=int(stat[3]),
        started=stat[19],
        cpu=own + of_reaped,
        threads=int(stat[17]),
        rss=int(stat[21]) * _PAGE,
        of_reaped=of_reaped,
    )


def io_counters(pid: int) -> dict[str, int]:
    """Returns the counters of /proc/PID/io (proc(5)), in bytes and calls; empty if unreadable.

    They include reaped children.
    """
    try:
        with open(f"/proc/{pid}/io", "rb", buffering=0) as file:
            words = file.read(1024).decode("ascii", "replace").split()
        return {name.rstrip(":"): int(value) for name, value in zip(words[::2], words[1::2])}
    except (OSError, ValueError):  # another user's, or gone
        return {}


def runnable_seconds(pid: int) -> dict[str, float]:
    """Returns the seconds that each thread has run or waited for a core; empty if unknown."""
    seconds: dict[str, float] = {}
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError, ValueError), open(f"/proc/{pid}/task/{thread}/schedstat", "rb") as file:
                ran, waited, _ = file.read(100).split()
                seconds[thread] = (int(ran) + int(waited)) / 1e9
    return seconds
