"""A crew of worker processes: the interpreter's lock lets one process do one thing at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Dict, List

from path_mapping.errors import WorkersLost
from path_mapping.stores import Access, Credentials
from path_mapping.stores.units import Batch
from path_mapping.workers.thread_pool import Outcomes

END_SECONDS = 5.0
HERE = os.fspath(Path(__file__).parents[2])  # not in `sys.path` where a hook finds the package
_BOOT = (
    "import sys; sys.path[:0] = sys.argv[2:]; "
    "from path_mapping.workers.worker_process import main; main(int(sys.argv[1]))"
)


class Worker:
    """One process, what was given to it and is not done, and the way to it."""

    def __init__(self, access: Access, threads: int) -> None:
        self.connection, theirs = Pipe()
        try:
            # Not `multiprocessing`: it would run the caller's main program again. A session of its own: a
            # signal for this process' group is for this process to answer.
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BOOT, str(theirs.fileno()), *sys.path, HERE],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        finally:
            theirs.close()
        self.batches: Dict[int, Batch] = {}  # by the number of the last unit
        self.connection.send((access, threads))

    def end(self) -> None:
        """Ends the process, whatever it does."""
        self.connection.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(END_SECONDS)


class Processes:
    """A crew of `number` processes with `threads` threads each."""

    def __init__(self, access: Access, number: int, threads: int) -> None:
        self._workers: List[Worker] = []
        self._each = threads + max(2, threads // 2)
        self.room = number * self._each
        try:
            for _ in range(number):
                self._workers.append(Worker(access, threads))
        except BaseException:
            self.close()
            raise

    def submit(self, batch: Batch) -> None:
        """Hands a batch to the worker with the fewest."""
        worker = min(self._workers, key=lambda worker: len(worker.batches))
        worker.batches[batch[-1].number] = batch
        self._say(worker, batch)

    def outcomes(self, seconds: float) -> Outcomes:
        """What was done meanwhile; a refusal of one worker is told to all others."""
        found: Outcomes = []
        ends = {worker.connection: worker for worker in self._workers}
        for ready in wait(list(ends), seconds):
            assert isinstance(ready, Connection)
            worker = ends[ready]
            try:
                message = worker.connection.recv()
            except (EOFError, OSError):
                self._lost(worker)
                continue
            if isinstance(message, list):
                found += message
                for outcome in message:
                    worker.batches.pop(outcome.number, None)
            else:
                for other in self._workers:
                    if other is not worker:
                        self._say(other, message)
        return found

    def _say(self, worker: Worker, message: object) -> None:
        try:
            worker.connection.send(message)
        except OSError:
            return  # it died: that is seen where it is listened to

    def _lost(self, worker: Worker) -> None:
        """Gives what a worker that died had to do to the others; raises `WorkersLost` after the last."""
        self._workers.remove(worker)
        worker.end()
        if not self._workers:
            code = worker.process.returncode
            raise WorkersLost(f"every process of the transfer died, the last one with the code {code}")
        for batch in worker.batches.values():
            self.submit(batch)

    def use(self, keys: Credentials) -> None:
        """Tells all workers."""
        for worker in self._workers:
            self._say(worker, keys)

    def close(self) -> None:
        """Ends all workers."""
        for worker in self._workers:
            worker.end()
