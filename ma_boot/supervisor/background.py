"""What a command that was started once per node has left in the background, as a loop without `wait` does."""

from __future__ import annotations

import os
import time
from typing import Iterable, Optional, Tuple

from ma_boot.processes import process_stats, processes_with, signal_group
from ma_boot.supervisor.worker import Worker

# One of these, which the command itself was not given, makes a process a rank: of start scripts and torchrun,
# of Open MPI, of MPICH, of MindSpore.
RANK_VARIABLES = (
    "RANK_ID",
    "DEVICE_ID",
    "LOCAL_RANK",
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "MS_NODE_ID",
)
SETTLE_SECONDS = 60.0  # a launcher in the background has imported its framework and started the ranks by then
LOOK_SECONDS = 5.0


class Background:
    """The process group of a command that has ended with 0.

    It goes on while one of its processes is a rank, and for the first minute whatever they are. A monitor
    beside ranks in the foreground, which never ends by itself, so holds no job for longer.
    """

    def __init__(self, worker: Worker, settle: float = SETTLE_SECONDS) -> None:
        """Looks at once: the processes that the command itself had started are now those of ma_boot."""
        self.worker = worker
        stats = process_stats()
        own = (str(os.getpid()), str(worker.pid))  # parent and process group
        self._started = {pid for pid, stat in stats.items() if (stat[1], stat[2]) == own}
        self._next_look = time.monotonic() + settle

    def patience(self) -> float:
        """Seconds until `is_over` should be called, unless a process ends."""
        return max(0.0, self._next_look - time.monotonic())

    def failure(self, reaped: Iterable[Tuple[int, int]]) -> Optional[int]:
        """The exit code of the first process of the command that failed, of those in `reaped`."""
        return next((code for pid, code in reaped if pid in self._started and code != 0), None)

    def is_over(self) -> bool:
        """Whether nothing is left that is waited for."""
        if not signal_group(self.worker.pid, 0):
            return True
        if self.patience() > 0:
            return False
        self._next_look = time.monotonic() + LOOK_SECONDS
        group = str(self.worker.pid)
        members = [pid for pid, stat in process_stats().items() if stat[2] == group and stat[0] not in "ZX"]
        given = self.worker.spec.environ
        return not any(
            value != given.get(name) for name in RANK_VARIABLES for _, value in processes_with(name, members)
        )
