"""One process of a plan: started in a session of its own, watched by a descriptor, and its end."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from typing import BinaryIO, Iterator, Mapping, Optional, Sequence, cast

from ma_boot.launch import WorkerSpec
from ma_boot.processes import group_exists, kill_group
from ma_boot.reporting.console import Console
from ma_boot.reporting.result import WorkerExit
from ma_boot.supervisor.worker_output import WorkerOutput


class Worker:
    """A started process with its output.

    `descriptor` becomes readable at its end (pidfd, Linux 5.3); None where the kernel has none: then SIGCHLD
    wakes the supervisor, who asks every process.
    """

    def __init__(self, spec: WorkerSpec, marker: Mapping[str, str], console: Console) -> None:
        """Raises `OSError` when it cannot be started, and `CannotCreate` without its log file."""
        self.spec = spec
        self.exit: Optional[WorkerExit] = None
        self._gone = False
        with _bound_to(spec.cores):
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
        try:
            pipe = cast(BinaryIO, self.process.stdout)
            self.output = WorkerOutput(pipe, spec.log_file, spec.label, console, spec.shown)
            self.descriptor = _pidfd(self.process.pid)
        except BaseException:
            kill_group(self.process.pid)
            self.process.wait()
            raise

    @property
    def pid(self) -> int:
        """The process, and the group and session that it leads."""
        return self.process.pid

    @property
    def gone(self) -> bool:
        """Nothing is left of the process and its group: its number may be another's from now on."""
        if not self._gone and self.exit is not None:
            self._gone = not group_exists(self.pid)
        return self._gone

    def look(self, now_ns: int, stopping: bool) -> Optional[WorkerExit]:
        """The end of the process, when it is new; takes its last output."""
        if self.exit is not None or self.process.poll() is None:
            return None
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None
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
            stopped=stopping,
            log_file=self.spec.log_file,
            output=self.output.tail(),
            log_lost=self.output.lost,
        )
        return self.exit

    def close(self) -> None:
        """Takes what the process's group printed since, and lets go of everything."""
        self.output.finish()


@contextlib.contextmanager
def _bound_to(cores: Sequence[int]) -> Iterator[None]:
    """A process that is started meanwhile inherits these cores; nothing runs on others before."""
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
