"""Waits for output, signals and the ends of workers, and records the ends in their order."""

from __future__ import annotations

import math
import os
import selectors
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ma_boot.node.supervisor.output import OutputPump
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.children import reap_orphans
from ma_boot.processes.control_group import OomCounters
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.explain import KILLED, tells_of_sigkill
from ma_boot.report.journal import Journal
from ma_boot.report.result import WorkerExit

if TYPE_CHECKING:
    from ma_boot.node.supervisor.background import Background


class ExitWatch:
    """Event loop of a run; `exits` has the workers' ends in the order in which the kernel reported them."""

    def __init__(self, pump: OutputPump, inbox: SignalInbox, marker: str, journal: Journal) -> None:
        self.exits: list[WorkerExit] = []
        self._pump = pump
        self._inbox = inbox
        self._marker = marker
        self._journal = journal
        self._running: list[Worker] = []
        self._background: list[Background] = []
        self._oom = OomCounters()
        # epoll reports descriptors in the order of their events, so the first end is the first failure.
        self._selector = selectors.EpollSelector()
        self._selector.register(inbox, selectors.EVENT_READ)
        self._selector.register(pump, selectors.EVENT_READ)
        self._reading = True

    def __enter__(self) -> ExitWatch:
        return self

    def __exit__(self, *exc: object) -> None:
        self._selector.close()

    def add(self, workers: Sequence[Worker]) -> None:
        """Starts to watch these workers, too."""
        self._running += workers
        for worker in workers:
            self._pump.add(worker.output)
            if worker.pidfd is not None:
                self._selector.register(worker.pidfd, selectors.EVENT_READ, worker)

    def wait(self, seconds: float, stopping: bool = False) -> None:
        """Sleeps until an event, for at most `seconds`; passes on output and records ended workers.

        With `stopping`, workers that end now count as stopped by ma_boot.
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
        self._pump.print_held()
        # Workers without a pidfd (before Linux 5.3) are polled; SIGCHLD has ended the sleep.
        ended += [
            worker for worker in self._running if worker.pidfd is None and worker.process.returncode is None
        ]
        for worker in ended:
            if worker.process.poll() is not None:
                if worker.spec.leaves_ranks and worker.process.returncode == 0 and not stopping:
                    self._background.append(self._in_background(worker))
                else:
                    self._record(worker, now_ns or time.monotonic_ns(), stopping)
        self._take_adopted(now_ns or time.monotonic_ns(), stopping)

    def _take_adopted(self, now_ns: int, stopping: bool) -> None:
        """Reaps adopted processes, and records commands whose background has ended."""
        reaped = reap_orphans([worker.pid for worker in self._running])
        for worker in self._running:
            if worker.spec.starts_ranks:
                worker.reaped.update(reaped)
        for left in list(self._background):
            failure = left.failure(reaped)
            if failure is not None or left.is_over(bool(reaped)):
                self._background.remove(left)
                # As if the command had waited for its background processes.
                left.worker.process.returncode = failure or 0
                self._record(left.worker, now_ns, stopping)

    def _in_background(self, worker: Worker) -> Background:
        """Returns the background of a worker that has ended; its pidfd has no more events."""
        if worker.pidfd is not None:
            self._selector.unregister(worker.pidfd)
            os.close(worker.pidfd)
            worker.pidfd = None
        from ma_boot.node.supervisor.background import Background

        return Background(worker, self._marker, self._journal)

    def _timeout(self, seconds: float) -> float | None:
        """Returns the timeout for `select`, and excludes output from it while the pump pauses."""
        pause = self._pump.pause()
        if pause and self._reading:
            self._selector.unregister(self._pump)
        elif not pause and not self._reading:
            self._selector.register(self._pump, selectors.EVENT_READ)
        self._reading = not pause
        soonest = min(
            seconds, pause or math.inf, self._pump.patience(), *(left.patience() for left in self._background)
        )
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
        self._journal.event("exit", **ended.event())
