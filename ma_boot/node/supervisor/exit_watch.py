"""Sleeps until a process ends, prints something, or a signal arrives; and records the ends in their order."""

from __future__ import annotations

import math
import os
import selectors
import time
from collections.abc import Iterable, Sequence
from typing import Callable

from ma_boot.node.supervisor.output import OutputPump
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.children import reap_orphans
from ma_boot.processes.control_group import OomCounters
from ma_boot.processes.orphan_guard import process_stats, processes_with
from ma_boot.processes.signals import SignalInbox, signal_group
from ma_boot.report.explain import KILLED, tells_of_sigkill
from ma_boot.report.result import WorkerExit


class ExitWatch:
    """The workers' ends so far (`exits`), in the order in which the kernel reported them."""

    def __init__(self, pump: OutputPump, inbox: SignalInbox, event: Callable[..., None]) -> None:
        self.exits: list[WorkerExit] = []
        self._pump = pump
        self._inbox = inbox
        self._event = event
        self._running: list[Worker] = []
        self._background: list[Background] = []
        self._oom = OomCounters()
        self._selector = selectors.EpollSelector()  # reports descriptors in the order of their events
        self._selector.register(inbox, selectors.EVENT_READ)
        self._selector.register(pump, selectors.EVENT_READ)
        self._reading = True

    def __enter__(self) -> ExitWatch:
        return self

    def __exit__(self, *exc: object) -> None:
        self._selector.close()

    def add(self, workers: Sequence[Worker]) -> None:
        """Watches these, too."""
        self._running += workers
        for worker in workers:
            self._pump.add(worker.output)
            if worker.pidfd is not None:
                self._selector.register(worker.pidfd, selectors.EVENT_READ, worker)

    def wait(self, seconds: float, stopping: bool = False) -> None:
        """Sleeps until something happens, at most `seconds`; then passes on output, and records who ended.

        `stopping` says that workers that end now have been stopped.
        """
        now_ns = None
        ended: list[Worker] = []
        for key, _ in self._selector.select(self._timeout(seconds)):
            now_ns = now_ns or time.monotonic_ns()
            if key.data is not None:
                ended.append(key.data)
            elif key.fileobj is self._inbox:
                self._inbox.drain()
            else:
                self._pump.pump()
        ended += [
            worker for worker in self._running if worker.pidfd is None and worker.process.returncode is None
        ]
        for worker in ended:
            if worker.process.poll() is not None:
                if worker.spec.leaves_ranks and worker.process.returncode == 0 and not stopping:
                    self._background.append(self._in_background(worker))
                else:
                    self._record(worker, now_ns or time.monotonic_ns(), stopping)
        reaped = reap_orphans([worker.pid for worker in self._running])
        for left in list(self._background):
            failure = left.failure(reaped)
            if failure is not None or left.is_over():
                self._background.remove(left)
                left.worker.process.returncode = failure or 0  # as if it had waited for them
                self._record(left.worker, now_ns or time.monotonic_ns(), stopping)

    def _in_background(self, worker: Worker) -> Background:
        """What goes on of a worker that has ended: nothing else will tell of that."""
        if worker.pidfd is not None:
            self._selector.unregister(worker.pidfd)
            os.close(worker.pidfd)
            worker.pidfd = None
        return Background(worker)

    def _timeout(self, seconds: float) -> float | None:
        """For `select`, which listens to the output unless the pump pauses."""
        pause = self._pump.pause()
        if pause and self._reading:
            self._selector.unregister(self._pump)
        elif not pause and not self._reading:
            self._selector.register(self._pump, selectors.EVENT_READ)
        self._reading = not pause
        soonest = min(seconds, pause or math.inf, *(left.patience() for left in self._background))
        return None if soonest == math.inf else soonest

    def _record(self, worker: Worker, now_ns: int, stopping: bool) -> None:
        self._running.remove(worker)
        if worker.pidfd is not None:
            self._selector.unregister(worker.pidfd)
        ended = worker.collect(now_ns, stopping)
        killed = ended.code in KILLED or (ended.code != 0 and tells_of_sigkill(ended.output))
        if killed and not stopping:
            ended = ended._replace(oom=self._oom.evidence())
        self.exits.append(ended)
        self._event(
            "exit", label=ended.label, rank=ended.rank, pid=ended.pid, code=ended.code, signal=ended.signal,
            seconds=ended.seconds, ended_ns=ended.ended_ns, stopped=ended.stopped, oom=ended.oom,
        )  # fmt: skip


# One of these, which the command itself was not given, makes a process a rank: of start scripts and torchrun,
# of Open MPI, of MPICH, of MindSpore.
RANK_VARIABLES = (
    "RANK_ID", "DEVICE_ID", "LOCAL_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "MS_NODE_ID",
)  # fmt: skip
GRACE_SECONDS = 60.0  # a launcher in the background has imported its framework and started the ranks by then
CHECK_SECONDS = 5.0


class Background:
    """The process group of a command that has ended with 0.

    It goes on while one of its processes is a rank, and for the first minute whatever they are. A monitor
    beside ranks in the foreground, which never ends by itself, so holds no job for longer.
    """

    def __init__(self, worker: Worker, grace: float = GRACE_SECONDS) -> None:
        """Looks at once: ma_boot is now the parent of the processes that the command itself had started."""
        self.worker = worker
        stats = process_stats()
        own = (str(os.getpid()), str(worker.pid))  # parent and process group
        self._started = {pid for pid, stat in stats.items() if (stat[1], stat[2]) == own}
        self._next_check = time.monotonic() + grace

    def patience(self) -> float:
        """Seconds until `is_over` should be called, unless a process ends."""
        return max(0.0, self._next_check - time.monotonic())

    def failure(self, reaped: Iterable[tuple[int, int]]) -> int | None:
        """The exit code of the first process of the command that failed, of those in `reaped`."""
        return next((code for pid, code in reaped if pid in self._started and code != 0), None)

    def is_over(self) -> bool:
        """Whether nothing is left that is waited for."""
        if not signal_group(self.worker.pid, 0):
            return True
        if self.patience() > 0:
            return False
        self._next_check = time.monotonic() + CHECK_SECONDS
        group = str(self.worker.pid)
        members = [pid for pid, stat in process_stats().items() if stat[2] == group and stat[0] not in "ZX"]
        given = self.worker.spec.environ
        return not any(
            value != given.get(name) for name in RANK_VARIABLES for _, value in processes_with(name, members)
        )
