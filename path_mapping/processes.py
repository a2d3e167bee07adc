"""A crew of worker processes: the interpreter's lock lets one process do one thing at a time."""

from __future__ import annotations

import subprocess
import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Dict, List, Optional

from path_mapping.crew import Outcomes
from path_mapping.store import Access, Credentials
from path_mapping.units import Batch

END_SECONDS = 5.0
_BOOT = (
    "import sys; sys.path[:0] = sys.argv[2:]; from path_mapping.worker import main; main(int(sys.argv[1]))"
)


class Worker:
    """One process, what was given to it and is not done, and the way to it."""

    def __init__(self, access: Access, threads: int) -> None:
        self.connection, theirs = Pipe()
        try:
            # Not `multiprocessing`: it would run the caller's main program again. A session of its own: a
            # signal for this process' group is for this process to answer.
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BOOT, str(theirs.fileno()), *sys.path],
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
        last = batch[-1].number
        worker.batches[last] = batch
        worker.connection.send(batch)

    def outcomes(self, seconds: float) -> Outcomes:
        """What was done meanwhile; a refusal of one worker is told to all others."""
        found: Outcomes = []
        ends = {worker.connection: worker for worker in self._workers}
        for ready in wait(list(ends), seconds):
            assert isinstance(ready, Connection)
            message = self._heard(ends[ready])
            if isinstance(message, list):
                found += message
                for outcome in message:
                    ends[ready].batches.pop(outcome.number, None)
            else:
                for worker in self._workers:
                    if worker is not ends[ready]:
                        worker.connection.send(message)
        return found

    def _heard(self, worker: Worker) -> object:
        try:
            return worker.connection.recv()
        except (EOFError, OSError) as error:
            raise OSError(f"a process of the transfer died: {_ending(worker)}") from error

    def use(self, keys: Credentials) -> None:
        """Tells all workers."""
        for worker in self._workers:
            worker.connection.send(keys)

    def close(self) -> None:
        """Ends all workers."""
        for worker in self._workers:
            worker.end()


def _ending(worker: Worker) -> str:
    code: Optional[int] = worker.process.wait(END_SECONDS)
    return f"by signal {-code}" if code is not None and code < 0 else f"with the code {code}"
