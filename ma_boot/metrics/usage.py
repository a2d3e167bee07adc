"""What a process and all that it has started use: CPU time, memory, threads, bytes read and written."""

from __future__ import annotations

import os
from typing import Mapping, Optional, Tuple

from ma_boot.metrics.record import RankUsage
from ma_boot.processes import CpuMeter, ProcessUsage, io_counters


class RankMeter:
    """Measures one process and its descendants; the sums of CPU time and bytes never fall."""

    def __init__(self, pid: int) -> None:
        self._cpu = CpuMeter(pid)
        self._read = 0
        self._written = 0

    def measure(self, processes: Mapping[int, ProcessUsage]) -> Optional[RankUsage]:
        """What they use by now, of all `processes`; None if there are none any more."""
        seconds = self._cpu.measure(processes, os.getpid())
        members = self._cpu.members
        if not members:
            return None
        known = [found for found in map(_storage, members) if found is not None]
        self._read = max(self._read, sum(read for read, _ in known))
        self._written = max(self._written, sum(written for _, written in known))
        return RankUsage(
            seconds,
            sum(one.rss for one in members.values()),
            sum(one.threads for one in members.values()),
            self._read if known else None,
            self._written if known else None,
        )


def _storage(pid: int) -> Optional[Tuple[int, int]]:
    """The bytes that a process has read from storage and written to it; None where that is hidden."""
    found = io_counters(pid)
    return (found["read_bytes"], found["write_bytes"]) if found else None
