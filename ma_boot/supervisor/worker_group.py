"""All processes of a run and what they start in turn: started, signalled, and not left behind."""

from __future__ import annotations

import errno
import signal
from typing import List, Optional, Sequence

from ma_boot.errors import BootError, CannotCreate, CommandNotFound, NotExecutable
from ma_boot.launch import WorkerSpec
from ma_boot.processes import (
    MARKER_VARIABLE,
    SignalInbox,
    adopted_children,
    processes_of,
    reap_orphans,
    running_processes,
    signal_group,
    signal_process,
)
from ma_boot.reporting import Journal
from ma_boot.supervisor.worker import Worker


class WorkerGroup:
    """The workers, with their process groups, and whatever else they have started.

    That is what carries `marker` in its environment, what descends from the workers, and what this process
    has adopted since the creation of the group, with its descendants.
    What is left at the end of the `with` block is killed.
    """

    def __init__(self, marker: str) -> None:
        self.workers: List[Worker] = []
        self._marker = marker
        self._older = adopted_children()
        self._over = False  # nothing is left: so nothing can come any more

    def __enter__(self) -> WorkerGroup:
        return self

    def __exit__(self, *exc: object) -> None:
        if not self._over:
            self.signal(signal.SIGKILL, detached=True)
        for worker in self.workers:
            worker.output.close()
        reap_orphans([worker.pid for worker in self.running()])

    def start(self, specs: Sequence[WorkerSpec], inbox: SignalInbox, journal: Journal) -> Optional[BootError]:
        """Starts the processes in this order, until one cannot be started: then returns why.

        After a stop signal no further process is started.
        """
        self._over = False
        for spec in specs:
            if inbox.stops:
                break
            try:
                worker = Worker(spec, {MARKER_VARIABLE: self._marker}, journal)
            except CannotCreate as error:
                return error
            except OSError as error:
                kind = CommandNotFound if error.errno == errno.ENOENT else NotExecutable
                what = error.filename or spec.argv[0]
                return kind(f"{spec.label} could not be started: {what}: {error.strerror}")
            self.workers.append(worker)
            journal.event(
                "start", label=spec.label, rank=spec.rank, pid=worker.pid, cores=list(spec.cores),
                log_file=spec.log_file,
            )  # fmt: skip
        return None

    def running(self) -> List[Worker]:
        """The workers whose end is not known yet."""
        return [worker for worker in self.workers if worker.exit is None]

    def labels(self) -> List[str]:
        """The labels of the workers that are running."""
        return [worker.spec.label for worker in self.running()]

    def left_behind(self) -> List[str]:
        """What is left of the workers' process groups, or else of what they started outside of them."""
        groups = [f"children of {worker.spec.label}" for worker in self.workers if not worker.gone]
        detached = 0 if groups else len(self._processes())
        self._over = not groups and not detached
        return groups or ([f"{detached} detached process{'es' if detached > 1 else ''}"] if detached else [])

    def signal(self, signum: int, detached: bool = False) -> None:
        """Signals the process groups; if `detached`, or once all workers have ended, also other processes."""
        for worker in self.workers:
            if not worker.gone:
                signal_group(worker.pid, signum)
        if detached or not self.running():
            for pid in self._processes():
                signal_process(pid, signum)

    def _processes(self) -> List[int]:
        """All running processes that the workers have started, and themselves."""
        running = running_processes()
        return processes_of(self._marker, adopted_children(running), apart=self._older, at=running)
