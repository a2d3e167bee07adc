"""Sleeps until a process ends, prints something, or a signal arrives; and records the ends in their order."""

from __future__ import annotations

import math
import os
import selectors
import time
from typing import Callable, List, Optional, Sequence

from ma_boot.processes import OomCounters, SignalInbox, reap_orphans
from ma_boot.reporting import WorkerExit, tells_of_sigkill
from ma_boot.supervisor.background import Background
from ma_boot.supervisor.output import OutputPump
from ma_boot.supervisor.worker import Worker

_SIGKILLED = (137, 247)  # 247 is -9, as a launcher in between passes it on


class ExitWatch:
    """The workers' ends so far (`exits`), in the order in which the kernel reported them."""

    def __init__(self, pump: OutputPump, inbox: SignalInbox, event: Callable[..., None]) -> None:
        self.exits: List[WorkerExit] = []
        self._pump = pump
        self._inbox = inbox
        self._event = event
        self._running: List[Worker] = []
        self._background: List[Background] = []
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

        `stopping` says that those that end now have been stopped.
        """
        now_ns = None
        ended: List[Worker] = []
        for key, _ in self._selector.select(self._timeout(seconds)):
            now_ns = now_ns or time.monotonic_ns()
            if key.data is not None:
                ended.append(key.data)
            elif key.fileobj is self._inbox:
                self._inbox.drain()
            else:
                self._pump.pump()
        ended += [one for one in self._running if one.pidfd is None and one.process.returncode is None]
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

    def _timeout(self, seconds: float) -> Optional[float]:
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
        killed = ended.code in _SIGKILLED or (ended.code != 0 and tells_of_sigkill(ended.output))
        if killed and not stopping:
            ended = ended._replace(oom=self._oom.evidence())
        self.exits.append(ended)
        self._event(
            "exit", label=ended.label, rank=ended.rank, pid=ended.pid, code=ended.code, signal=ended.signal,
            seconds=ended.seconds, ended_ns=ended.ended_ns, stopped=ended.stopped, oom=ended.oom,
        )  # fmt: skip
