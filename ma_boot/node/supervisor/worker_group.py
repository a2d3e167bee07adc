"""Processes of a run with their descendants: start, signals, and cleanup."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO, cast

from ma_boot.errors import BootError, CannotCreate, CommandNotFound, NotExecutable
from ma_boot.node.launch.launch_plan import WorkerSpec
from ma_boot.node.supervisor.output import WorkerOutput
from ma_boot.node.supervisor.stop_ladder import UNKILLABLE_SECONDS
from ma_boot.processes.children import adopted_children, reap_orphans
from ma_boot.processes.control_group import limit_reached
from ma_boot.processes.orphan_guard import MARKER_VARIABLE, processes_of, running_processes
from ma_boot.processes.signals import SignalInbox, signal_group, signal_process
from ma_boot.report.journal import Journal
from ma_boot.report.result import WorkerExit
from ma_boot.wording import Message

if TYPE_CHECKING:
    from ma_boot.node.scripts.rank_output import RankOutput

# Seconds between two looks at processes that must end: other processes' children send no SIGCHLD.
_POLL_SECONDS = 0.01


class WorkerGroup:
    """Workers, their process groups, and all other processes that they have started.

    Those carry `marker` in their environment, descend from the workers, or were adopted by this process since
    the creation of the group, with their descendants.
    The end of the `with` block kills the rest; if the block raises, it also waits for their end.
    """

    def __init__(self, marker: str) -> None:
        self.workers: list[Worker] = []
        self._marker = marker
        self._older = adopted_children()
        # True once no process is left: then no new one can appear, and the end needs no SIGKILL.
        self._is_over = False

    def __enter__(self) -> WorkerGroup:
        return self

    def __exit__(self, *exc: object) -> None:
        if not self._is_over:
            self.signal(signal.SIGKILL, detached=True)
        until = time.monotonic() + (UNKILLABLE_SECONDS if exc[0] is not None else 0.0)
        while time.monotonic() < until and (self.running() or self._processes()):
            self._collect_ended()
            time.sleep(_POLL_SECONDS)
        for worker in self.workers:
            worker.output.close()
        reap_orphans([worker.pid for worker in self.running()])

    def start(self, specs: Sequence[WorkerSpec], inbox: SignalInbox, journal: Journal) -> BootError | None:
        """Starts the processes in this order; returns the error of the first that cannot be started.

        After a stop signal no further process is started.
        """
        self._is_over = False
        for spec in specs:
            if inbox.stops:
                break
            try:
                worker = Worker(spec, {MARKER_VARIABLE: self._marker}, journal)
            except CannotCreate as error:
                return error
            except OSError as error:
                if limit := limit_reached(error):
                    who = Message.of("{}, one of the {} processes of this node,", spec.label, len(specs))
                    return type(limit)(Message.of("{} could not be started: {}", who, limit))
                kind = CommandNotFound if error.errno == errno.ENOENT else NotExecutable
                what = f"{error.filename or spec.argv[0]}: {error.strerror}"
                return kind(Message.of("{} could not be started: {}", spec.label, what))
            self.workers.append(worker)
            journal.event(
                "start", label=spec.label, rank=spec.rank, pid=worker.pid, cores=list(spec.cores),
                log_file=spec.log_file,
            )  # fmt: skip
        return None

    def running(self) -> list[Worker]:
        """Returns the workers without a recorded end."""
        return [worker for worker in self.workers if worker.exit is None]

    def labels(self) -> list[str]:
        """Returns the labels of the running workers."""
        return [worker.spec.label for worker in self.running()]

    def left_behind(self) -> list[str]:
        """Describes the processes left in the workers' process groups, or else outside of them."""
        left = self._processes()
        self._is_over = not left
        groups = set(map(_group_of, left))
        of_groups = [f"children of {worker.spec.label}" for worker in self.workers if worker.pid in groups]
        return of_groups or ([f"{len(left)} detached process{'es' if len(left) > 1 else ''}"] if left else [])

    def describe_left(self) -> list[str]:
        """Describes each process that is left by its command."""
        from ma_boot.node.scripts.job_processes import command_of
        from ma_boot.node.scripts.leftovers import describe_process

        return [describe_process(pid, words) for pid in self._processes() if (words := command_of(pid))]

    def signal(self, signum: int, detached: bool = False) -> None:
        """Signals the process groups; if `detached`, or once all workers have ended, also other processes.

        The number of a group whose leader was reaped may have been given to another group. So only processes
        that the workers have started get the signal there.
        """
        running = {worker.pid for worker in self.workers if worker.process.returncode is None}
        for pid in running:
            signal_group(pid, signum)
        ended = {worker.pid for worker in self.workers} - running
        if running and not ended and not detached:
            return
        for pid in self._processes():
            if detached or not running or _group_of(pid) in ended:
                signal_process(pid, signum)

    def _collect_ended(self) -> None:
        """Records ended workers and reaps adopted processes."""
        for worker in self.running():
            if worker.process.poll() is not None:
                worker.collect(time.monotonic_ns(), stopped=True)
        reap_orphans([worker.pid for worker in self.running()])

    def _processes(self) -> list[int]:
        """Returns the running workers and all running processes that they have started."""
        running = running_processes()
        return processes_of(self._marker, adopted_children(running), apart=self._older, at=running)


def _group_of(pid: int) -> int:
    """Returns the process group of a process; 0 if it has ended."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


class Worker:
    """Started process and its output; `exit` is None until its end is recorded.

    `started_ranks` are the ranks that the process has started itself, and `failed_ranks` the ends of those
    whose failure stops the run; an observer adds both. `reaped` are the exit codes of its descendants that
    ma_boot has adopted, by pid. `is_held`: processes that it leaves are awaited, whatever they are.

    `pidfd` becomes readable when the process ends (pidfd_open(2), Linux 5.3). On an older kernel it is None,
    and the process is polled after each SIGCHLD.
    """

    def __init__(self, spec: WorkerSpec, marker: Mapping[str, str], journal: Journal) -> None:
        """Starts the process with the variables of `marker` added to its environment.

        Raises:
            OSError: it cannot be started.
            CannotCreate: its log file cannot be created.
        """
        self.spec = spec
        self.exit: WorkerExit | None = None
        self.started_ranks: list[RankOutput] = []
        self.failed_ranks: list[WorkerExit] = []
        self.reaped: dict[int, int] = {}
        self.is_held = False
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
        """Pid of the process, its group and its session; may be reused once the end is recorded."""
        return self.process.pid

    def ends(self) -> list[WorkerExit]:
        """Returns the end of the process, if it has ended, and those of its failed ranks."""
        return [*self.failed_ranks, *([self.exit] if self.exit is not None else [])]

    def so_far(self) -> WorkerExit:
        """Returns the end of the process as if it were stopped now, with its last output."""
        return self._end(-signal.SIGTERM, time.monotonic_ns(), stopped=True)

    def collect(self, now_ns: int, stopped: bool) -> WorkerExit:
        """Records the end of an ended process with its last output.

        `now_ns` is the monotonic clock in nanoseconds; `stopped` is True if ma_boot has stopped the process.
        """
        if self.pidfd is not None:
            os.close(self.pidfd)
        self.output.take()
        self.exit = self._end(self.process.returncode, now_ns, stopped)
        return self.exit

    def _end(self, returncode: int, now_ns: int, stopped: bool) -> WorkerExit:
        return WorkerExit(
            label=self.spec.label,
            rank=self.spec.rank,
            device=self.spec.local_rank,
            pid=self.pid,
            code=returncode if returncode >= 0 else 128 - returncode,
            signal=-returncode if returncode < 0 else None,
            ended_ns=now_ns,
            seconds=(now_ns - self.started_ns) / 1e9,
            stopped=stopped,
            log_file=self.spec.log_file,
            output=self.output.tail(),
        )


def start_command(workers: Sequence[Worker]) -> Worker | None:
    """Returns the worker that is a command which starts the ranks of its node itself; None without one."""
    return next((one for one in workers if one.spec.rank is None and one.spec.starts_ranks), None)


@contextlib.contextmanager
def _affinity(cores: Sequence[int]) -> Iterator[None]:
    """Binds this process to the cores during the block, so that a child never runs on others."""
    if not cores:
        yield
        return
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError:  # an older kernel
        return None
