"""Detects commands that start all ranks themselves and were started once per rank."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence

from ma_boot.errors import ConfigError
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.cpu_meter import CpuMeter, ProcessUsage, process_usages
from ma_boot.processes.orphan_guard import processes_with
from ma_boot.wording import Message

# Seconds from the start to the first check, and the longest pause. Each pause is twice as long as the last.
FIRST_LOOK = 0.5
LAST_LOOK = 64.0
_NUMBERS = ("RANK_ID", "DEVICE_ID", "LOCAL_RANK")


class StartedTwice:
    """Checks of the processes below the ranks, eight times during the first two minutes."""

    def __init__(self) -> None:
        self.error: ConfigError | None = None
        self._pause = FIRST_LOOK
        self._next = time.monotonic() + self._pause

    def patience(self) -> float:
        """Returns the seconds until `check` should be called."""
        return max(0.0, self._next - time.monotonic())

    def check(self, workers: Sequence[Worker], is_last: bool = False) -> bool:
        """Checks if a check is due or `is_last`; returns True, and sets `error`, if ranks have started ranks.

        The evidence: below every rank of the node run processes with the same two or more rank or device
        numbers at the same time. One process under another rank's number (an evaluation), a script that
        changes its own number, and children that inherit or unset it are no evidence. Ranks whose command
        may start ranks (`--per-device`) and a single rank are not checked.
        """
        if not is_last:
            if self.patience() > 0:
                return False
            self._pause *= 2
            self._next = time.monotonic() + self._pause if self._pause <= LAST_LOOK else math.inf
        ranks = [
            worker for worker in workers if worker.spec.rank is not None and not worker.spec.starts_ranks
        ]
        if len(ranks) < 2:
            return False
        processes = process_usages()
        of_rank = [(worker, self._below(worker, processes)) for worker in ranks]
        below = [pids for worker, pids in of_rank if pids or worker.exit is None]
        for name in _NUMBERS if len(below) > 1 and all(below) else ():
            common = set.intersection(*(_values(name, pids) for pids in below))
            if len(common) > 1:
                remedy = "--per-node" if name == "LOCAL_RANK" else "--per-node --rendezvous rank-table"
                self.error = ConfigError(
                    Message.of(
                        "COMMAND starts the ranks itself, and was started for each of {} ranks: each has "
                        "processes with {} {}; start it once per node: {} (or, if this is meant, "
                        "--per-device)",
                        len(ranks),
                        name,
                        ", ".join(sorted(common, key=int)),
                        remedy,
                    )
                )
                return True
        return False

    @staticmethod
    def _below(worker: Worker, processes: dict[int, ProcessUsage]) -> list[int]:
        meter = CpuMeter(worker.pid)
        meter.measure(processes, os.getpid())
        return [pid for pid in meter.members if pid != worker.pid]


def _values(name: str, pids: Sequence[int]) -> set[str]:
    return {value for _, value in processes_with(name, pids) if value.isdecimal()}
