"""A pool of worker processes, because the GIL lets one process run Python in one thread at a time."""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from path_mapping.errors import NoWorkers, WorkersLost
from path_mapping.stores.units import Unit, bytes_of
from path_mapping.workers.pool import Outcomes, Pool
from path_mapping.workers.retry import RetriedStore, Trouble
from path_mapping.workers.worker_process import NO_LOOP, MessageSocket, RenewalWanted, WorkerSetup

# Small units that a worker has beside those that it works at, and bytes of a large one, of which it has some.
READY = 48
SPARE = 2
BATCH_BYTES = 16 << 20
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
    """One process, the connection to it, and the units that it has not reported, by their numbers."""

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
        self.units: dict[int, Unit] = {}
        self.send(setup)

    def send(self, message: object) -> None:
        """Sends a message; a dead process is noticed where its connection is read."""
        with suppress(OSError):
            self.connection.send(message)

    def flush(self) -> None:
        """Sends what the process has not received."""
        with suppress(OSError):
            self.connection.flush()

    def end(self) -> None:
        """Kills the process."""
        self.connection.close()
        if self.process.poll() is None:
            self.process.kill()
        with suppress(subprocess.TimeoutExpired):  # the process is in a call that cannot be interrupted
            self.process.wait(END_SECONDS)


class ProcessPool(Pool):
    """A pool of worker processes, each with an event loop of so many connections."""

    def __init__(self, to: RetriedStore, processes: int, connections: int) -> None:
        assert to.store.signer is not None
        self._signer = signer = to.store.signer
        self._troubled = to.troubled
        self._connections = connections
        self._workers: list[WorkerProcess] = []
        # Unlike an epoll selector, it needs no file descriptor.
        self._ready = selectors.PollSelector()
        setup = WorkerSetup(signer.access, signer.patience, connections, to.patience)
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

    def wanted(self, left: int) -> int:
        """See `Pool.wanted`. Each worker has some more than it works at; the rest is shared in the end."""
        worker = self._idlest()
        has, least = len(worker.units), self._connections + SPARE
        if has >= least and sum(map(bytes_of, worker.units.values())) > least * BATCH_BYTES:
            return 0
        most = min(self._connections + READY, left // (2 * len(self._workers)))
        # Few messages, as each wakes up two processes; but no worker must wait for one.
        return most - has if most - has >= READY // 2 else max(0, least - has)

    def _idlest(self) -> WorkerProcess:
        return min(self._workers, key=lambda worker: len(worker.units))

    def submit(self, units: list[Unit]) -> None:
        """See `Pool.submit`. The worker with the fewest units gets them."""
        worker = self._idlest()
        worker.units.update((unit.number, unit) for unit in units)
        worker.send(units)

    def outcomes(self, seconds: float) -> Outcomes:
        """See `Pool.outcomes`. A `SlowDown` in one worker is passed on to all others."""
        for worker in self._workers:
            worker.flush()
        outcomes: Outcomes = []
        for key, _ in self._ready.select(seconds):
            worker = key.data
            try:
                for message in worker.connection.messages():
                    self._receive(worker, message, outcomes)
            except (EOFError, OSError):
                self._lost(worker)
        return outcomes

    def _receive(self, worker: WorkerProcess, message: Any, outcomes: Outcomes) -> None:
        if isinstance(message, list):
            outcomes += message
            for outcome in message:
                del worker.units[outcome.number]
        elif isinstance(message, Trouble):
            self._troubled(message)
        elif isinstance(message, RenewalWanted):
            self._signer.renewed(message.used, pause=lambda seconds: True)
            worker.send(self._signer.access.credentials)
        else:
            for other in self._workers:
                if other is not worker:
                    other.send(message)

    def _lost(self, worker: WorkerProcess) -> None:
        """Submits the units that a dead worker has not reported to the others."""
        self._workers.remove(worker)
        self._ready.unregister(worker.connection)
        worker.end()
        if not self._workers:
            code = worker.process.returncode
            if code == NO_LOOP:
                raise NoWorkers("no worker process of the transfer can start its event loop")
            raise WorkersLost(
                f"all worker processes of the transfer died, the last one with exit code {code}"
            )
        for unit in worker.units.values():
            self.submit([unit])

    def close(self) -> None:
        for worker in self._workers:
            worker.end()
