"""One process of a plan: started in a session of its own, and how it ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import BinaryIO, Iterator, Mapping, Optional, Sequence, cast

from ma_boot.launch import WorkerSpec
from ma_boot.processes import signal_group
from ma_boot.reporting import Journal, WorkerExit
from ma_boot.supervisor.output import WorkerOutput


class Worker:
    """A process that was started, and its output; `exit` is None until its end is recorded.

    `pidfd` becomes readable when the process ends (pidfd_open(2), Linux 5.3). On an older kernel it is None,
    and the process has to be polled: SIGCHLD tells when.
    """

    def __init__(self, spec: WorkerSpec, marker: Mapping[str, str], journal: Journal) -> None:
        """Starts the process with the variables of `marker` added to its environment.

        Raises:
            OSError: it cannot be started.
            CannotCreate: its log file cannot be created.
        """
        self.spec = spec
        self.exit: Optional[WorkerExit] = None
        with _affinity(spec.cores):
            self.process = subprocess.Popen(
                spec.argv,
                cwd=spec.cwd,
                env={**spec.environ, **marker},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                start_new_session=True,
            )
        self.started_ns = time.monotonic_ns()
        pipe = cast(BinaryIO, self.process.stdout)
        try:
            self.output = WorkerOutput(pipe, spec, journal)
            self.pidfd = _pidfd(self.process.pid)
        except BaseException:
            pipe.close()
            signal_group(self.process.pid, signal.SIGKILL)
            self.process.wait()
            raise

    @property
    def pid(self) -> int:
        """The process, and the group and session that it leads; another one's once its end is recorded."""
        return self.process.pid

    def so_far(self) -> WorkerExit:
        """The end of the process if it were stopped now, with its last output."""
        return WorkerExit(
            label=self.spec.label,
            rank=self.spec.rank,
            device=self.spec.local_rank,
            pid=self.pid,
            code=128 + signal.SIGTERM,
            signal=signal.SIGTERM,
            ended_ns=time.monotonic_ns(),
            seconds=(time.monotonic_ns() - self.started_ns) / 1e9,
            stopped=True,
            log_file=self.spec.log_file,
            output=self.output.tail(),
        )

    def collect(self, now_ns: int, stopped: bool) -> WorkerExit:
        """Records the end of the process, once it has ended, and takes its last output.

        `now_ns` is the monotonic clock in nanoseconds; `stopped` says that the end was not its own doing.
        """
        if self.pidfd is not None:
            os.close(self.pidfd)
        self.output.take()
        code = self.process.returncode
        self.exit = WorkerExit(
            label=self.spec.label,
            rank=self.spec.rank,
            device=self.spec.local_rank,
            pid=self.pid,
            code=code if code >= 0 else 128 - code,
            signal=-code if code < 0 else None,
            ended_ns=now_ns,
            seconds=(now_ns - self.started_ns) / 1e9,
            stopped=stopped,
            log_file=self.spec.log_file,
            output=self.output.tail(),
        )
        return self.exit


@contextlib.contextmanager
def _affinity(cores: Sequence[int]) -> Iterator[None]:
    """A process that is started in the block inherits these cores; so it never runs on others."""
    if not cores:
        yield
        return
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def _pidfd(pid: int) -> Optional[int]:
    try:
        return os.pidfd_open(pid)
    except OSError:  # an older kernel
        return None
