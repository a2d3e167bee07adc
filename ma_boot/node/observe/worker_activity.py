"""CPU time and other signs of life of this node's workers, from /proc and the device tool."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence

from ma_boot.node.observe.quiet_life import QuietLife
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.cpu_meter import CpuMeter, ProcessUsage, process_usages
from ma_boot.processes.orphan_guard import MARKER_VARIABLE, processes_with
from ma_boot.processes.signals import SignalInbox


class WorkerActivity:
    """Measures the activity of workers; `quiet_life` exists once a worker has been quiet."""

    def __init__(self, inbox: SignalInbox) -> None:
        self.quiet_life: QuietLife | None = None
        self._inbox = inbox
        self._meters: dict[int, CpuMeter] = {}

    def close(self) -> None:
        """Ends a running device tool."""
        if self.quiet_life is not None:
            self.quiet_life.close()

    def measure(self, workers: Sequence[Worker]) -> dict[int, tuple[float, float]]:
        """Returns, by pid, each worker's CPU seconds (with its descendants') and time of the last output."""
        processes = process_usages()
        for worker in workers:
            self._meters.setdefault(worker.pid, CpuMeter(worker.pid))
        self._adopt_orphans(workers, processes)
        own = os.getpid()
        return {
            worker.pid: (self._meters[worker.pid].measure(processes, own), worker.output.last_output)
            for worker in workers
        }

    def find_life(self, quiet: Sequence[Worker]) -> dict[int, float]:
        """Returns when each quiet worker last showed another sign of life; monotonic seconds, or -inf."""
        if not quiet:
            return {}
        life = self.quiet_life = self.quiet_life or QuietLife(self._inbox)
        life.check_data({worker.pid: self._meters[worker.pid].members for worker in quiet})
        return {worker.pid: life.last_seen(worker) for worker in quiet}

    def read_devices(self, quiet: Sequence[Worker], seconds: float) -> None:
        """Starts to read the devices of quiet workers for `seconds`; the next `find_life` has the result."""
        if self.quiet_life is not None:
            self.quiet_life.check_devices(quiet, seconds)

    def is_undecided(self, worker: Worker) -> bool:
        """Returns whether more device readings are needed to call the worker idle."""
        return self.quiet_life is not None and self.quiet_life.is_undecided(worker)

    def device_seen(self, worker: Worker) -> float:
        """Returns when the worker's device last computed; monotonic seconds, or -inf."""
        return self.quiet_life.device_seen(worker) if self.quiet_life is not None else -math.inf

    def _adopt_orphans(self, workers: Sequence[Worker], processes: Mapping[int, ProcessUsage]) -> None:
        """Counts orphans with sessions of their own for the worker whose LOCAL_RANK they have inherited.

        Processes that ma_boot has started itself, such as the device tool, lack the marker variable.
        """
        own = os.getpid()
        known = {pid for meter in self._meters.values() for pid in meter.members} | set(self._meters)
        orphans = [
            pid
            for pid, usage in processes.items()
            if usage.parent == own and pid not in known and usage.session not in known
        ]
        marked = [pid for pid, marker in processes_with(MARKER_VARIABLE, orphans) if f":{own}:" in marker]
        ranks = dict(processes_with("LOCAL_RANK", marked))
        owners = {worker.spec.environ.get("LOCAL_RANK"): worker for worker in workers}
        for pid in marked:
            owner = owners.get(ranks.get(pid)) or (workers[0] if len(workers) == 1 else None)
            if owner is not None:
                self._meters[owner.pid].adopt(pid, processes[pid])
