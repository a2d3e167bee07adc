"""What processes use: the CPU time of a process with all that it has started, which never falls."""

from __future__ import annotations

import os
from typing import Dict, List, Mapping, NamedTuple, Sequence

from ma_boot.processes.orphan_guard import process_stats

_TICK = 1 / os.sysconf("SC_CLK_TCK")  # seconds
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ProcessUsage(NamedTuple):
    """A process: parent, session, start time, and CPU seconds with those of the children it has reaped.

    `threads` and `rss` (bytes of resident memory) are those of now.
    """

    parent: int
    session: int
    started: str
    cpu: float
    threads: int = 0
    rss: int = 0


class CpuMeter:
    """The CPU seconds of a worker and of all its descendants, in whatever sessions; they never fall.

    A descendant that has lost its parent, or ended, is remembered until the next measurement.
    """

    def __init__(self, pid: int) -> None:
        self.seconds = 0.0
        self._pid = pid
        self._members: Dict[int, ProcessUsage] = {}

    def measure(self, processes: Mapping[int, ProcessUsage], reaper: int) -> float:
        """The seconds by now; `reaper` has adopted the orphans, and takes their times with it."""
        before, self._members = self._members, self._found(processes)
        reaped = {pid for pid, one in before.items() if pid not in self._members and one.parent == reaper}
        counted = sum(one.cpu for pid, one in before.items() if pid not in reaped)
        self.seconds += max(0.0, sum(one.cpu for one in self._members.values()) - counted)
        return self.seconds

    @property
    def members(self) -> Mapping[int, ProcessUsage]:
        """The processes that the last measurement has found, by pid; zombies are among them."""
        return self._members

    def _found(self, processes: Mapping[int, ProcessUsage]) -> Dict[int, ProcessUsage]:
        children: Dict[int, List[int]] = {}
        for pid, one in processes.items():
            children.setdefault(one.parent, []).append(pid)
        waiting = [pid for pid, one in processes.items() if pid == self._pid or one.session == self._pid]
        waiting += [
            pid
            for pid, one in self._members.items()
            if pid in processes and processes[pid].started == one.started
        ]
        found: Dict[int, ProcessUsage] = {}
        while waiting:
            pid = waiting.pop()
            if pid not in found:
                found[pid] = processes[pid]
                waiting += children.get(pid, ())
        return found


def process_usages() -> Dict[int, ProcessUsage]:
    """Every process, zombies included: what they used is lost to the sum only when they are reaped."""
    return {pid: usage_of(stat) for pid, stat in process_stats().items()}


def usage_of(stat: Sequence[str]) -> ProcessUsage:
    """That in the fields of /proc/PID/stat (proc(5)) after the name of the program."""
    cpu = sum(map(int, stat[11:15])) * _TICK
    return ProcessUsage(int(stat[1]), int(stat[3]), stat[19], cpu, int(stat[17]), int(stat[21]) * _PAGE)
