"""A pool of worker processes, because the GIL lets one process run Python in one thread at a time."""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from path_mapping.errors import NoWorkers, WorkersLost
from path_mapping.stores.units import Unit
from path_mapping.workers.retry import RetriedStore, Trouble
from path_mapping.workers.thread_pool import NO_THREADS, Batch, Outcomes, Pool
from path_mapping.workers.worker_process import MessageSocket, RenewalWanted, WorkerSetup

# Seconds; max. wait for a killed process.
END_SECONDS = 5.0
# Directory of the package, which is not in `sys.path` if an import hook finds it.
HERE = os.fspath(Path(__file__).parents[2])
# With a high threshold, the garbage collector does not search imported modules: 4 of the 60 ms of a start.
_PROGRAM = (
    "import gc, sys; gc.set_threshold(50_000); sys.path[:0] = sys.argv[2:]; "
    "from path_mapping.workers.worker_process import main; main(int(sys.argv[1]))"
)


class WorkerProcess:
    """One process, the connection to it, and the units whose outcomes it has not reported.

    `ends` are the numbers of the last units of its batches.
    """

    def __init__(self, setup: WorkerSetup) -> None:
        ours, theirs = socket.socketpair()
        self.connection = MessageSocket(ours)
        try:
            # Not `multiprocessing`, which would run the caller's main program again. In a session of its own:
            # a signal to the process group is for this process, which ends its workers itself.
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _PROGRAM, str(theirs.fileno()), *sys.path, HERE],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except BaseException:
            self.connection.close()
            raise
        finally:
            theirs.close()
        # By their numbers, in the order of the batches.
        self.units: dict[int, Unit] = {}
        self.ends: set[int] = set()
        self.send(setup)

    def send(self, message: object) -> None:
        """Sends a message; a dead process is noticed where its connection is read."""
        try:
            self.connection.send(message)
        except OSError:
            return

    def end(self) -> None:
        """Kills the process."""
        self.connection.close()
        if self.process.poll() is None:
            self.process.kill()
        with suppress(subprocess.TimeoutExpired):  # the process is in a call that cannot be interrupted
            self.process.wait(END_SECONDS)


class ProcessPool(Pool):
    """A pool of worker processes with some threads each."""

    def __init__(self, to: RetriedStore, processes: int, threads: int, ahead: int) -> None:
        assert to.store.signer is not None
        self._signer = signer = to.store.signer
        self._troubled = to.troubled
        self._workers: list[WorkerProcess] = []
        # Unlike an epoll selector, it needs no file descriptor.
        self._ready = selectors.PollSelector()
        self.ahead = ahead
        self.room = processes * (threads + max(2, threads // 2))
        setup = WorkerSetup(signer.access, signer.patience, threads, ahead, to.patience)
        try:
            for _ in range(processes):
                worker = WorkerProcess(setup)
                self._workers.append(worker)
                self._ready.register(worker.connection, selectors.EVENT_READ, worker)
        except OSError as error:  # the limit of processes: fewer will do
            if not self._workers:
                raise NoWorkers(f"no worker process can be started for the transfer: {error}") from error
        except BaseException:
            self.close()
            raise

    def submit(self, batch: Batch) -> None:
        """See `Pool.submit`. The worker with the fewest batches gets the batch."""
        worker = min(self._workers, key=lambda worker: len(worker.ends))
        worker.units.update((unit.number, unit) for unit in batch)
        worker.ends.add(batch[-1].number)
        worker.send(batch)

    def outcomes(self, seconds: float) -> Outcomes:
        """See `Pool.outcomes`. A `SlowDown` in one worker is passed on to all others."""
        outcomes: Outcomes = []
        for key, _ in self._ready.select(seconds):
            worker = key.data
            try:
                message = worker.connection.receive()
            except (EOFError, OSError):
                self._lost(worker)
                continue
            if isinstance(message, list):
                outcomes += message
                for outcome in message:
                    del worker.units[outcome.number]
                    worker.ends.discard(outcome.number)
            elif isinstance(message, Trouble):
                self._troubled(message)
            elif isinstance(message, RenewalWanted):
                self._signer.renewed(message.used, pause=lambda seconds: True)
                worker.send(self._signer.access.credentials)
            else:
                for other in self._workers:
                    if other is not worker:
                        other.send(message)
        return outcomes

    def _lost(self, worker: WorkerProcess) -> None:
        """Submits the units that a dead worker has not reported to the others, in the same batches."""
        self._workers.remove(worker)
        self._ready.unregister(worker.connection)
        worker.end()
        if not self._workers:
            code = worker.process.returncode
            if code == NO_THREADS:
                raise NoWorkers("no worker process of the transfer can start its threads")
            raise WorkersLost(
                f"all worker processes of the transfer died, the last one with exit code {code}"
            )
        batch: Batch = []
        for unit in worker.units.values():
            batch.append(unit)
            if unit.number in worker.ends:
                self.submit(batch)
                batch = []

    def close(self) -> None:
        for worker in self._workers:
            worker.end()
