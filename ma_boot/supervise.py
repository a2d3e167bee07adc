"""Starts the processes of a plan, all or none, watches them, and ends them; a failure is a value.

One thread and one selector: the kernel wakes it for output, for a child's end (SIGCHLD) and for a stop
signal. The ladder of a stop is SIGTERM to every process group, one deadline for all of them, SIGKILL.
"""

from __future__ import annotations

import errno
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import BinaryIO, Callable, List, Optional, Sequence, Tuple, cast

from ma_boot.errors import BootError, CannotCreate, NotExecutable, NotFound, signal_name
from ma_boot.launch import WorkerSpec
from ma_boot.output import Console, WorkerOutput
from ma_boot.processes import end_group, signal_group
from ma_boot.signals import SignalInbox

UNKILLABLE_SECONDS = (
    10.0  # a process in an uninterruptible sleep outlives SIGKILL: it is reported, not waited for
)

Event = Callable[..., None]


@dataclass(frozen=True)
class WorkerExit:
    """How one process ended: `code` as a shell shows it (128+n for signal n), `seconds` after its start.

    `stopped` says that the end came after ma_boot had begun to stop everything: it is no cause.
    """

    label: str
    rank: Optional[int]
    pid: int
    code: int
    signal: Optional[int]
    seconds: float
    stopped: bool
    log_file: str
    tail: Tuple[str, ...]

    def how(self) -> str:
        """The end in words."""
        if self.signal is not None:
            return f"was killed by {signal_name(self.signal)}"
        return f"ended with exit code {self.code}"


@dataclass(frozen=True)
class RunResult:
    """How all processes ended, in the order of their ends; `not_started` is why one could not be spawned."""

    exits: Tuple[WorkerExit, ...]
    not_started: Optional[BootError] = None

    @property
    def first_failure(self) -> Optional[WorkerExit]:
        """The cause: the first process that failed by itself."""
        return next((ended for ended in self.exits if ended.code != 0 and not ended.stopped), None)

    @property
    def succeeded(self) -> bool:
        """Every process was started and ended with 0."""
        return self.not_started is None and all(ended.code == 0 for ended in self.exits)

    @property
    def outcome(self) -> str:
        """The run as the outcome of a phase."""
        if self.succeeded:
            return "done"
        return "failed" if self.first_failure or self.not_started else "stopped"

    def summary(self) -> str:
        """One line for the log."""
        failure = self.first_failure
        if failure is not None:
            return f"{failure.label} {failure.how()}"
        stopped = sum(ended.stopped for ended in self.exits)
        return f"{len(self.exits) - stopped} processes ended with 0" + (
            f", {stopped} stopped" if stopped else ""
        )


class _Worker:
    """One started process, its output, and its end once it is known."""

    def __init__(self, spec: WorkerSpec, console: Console) -> None:
        self.spec = spec
        self.started = time.monotonic()
        self.exit: Optional[WorkerExit] = None
        self.process = subprocess.Popen(
            spec.argv,
            cwd=spec.cwd,
            env=dict(spec.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
        )
        try:
            pipe = cast(BinaryIO, self.process.stdout)
            self.output = WorkerOutput(pipe, spec.log_file, spec.label, console)
        except BaseException:
            end_group(self.process.pid)
            self.process.wait()
            raise

    def look(self, stopping: bool) -> Optional[WorkerExit]:
        """The end of the process, when it is new."""
        if self.exit is not None or self.process.poll() is None:
            return None
        code = self.process.returncode
        self.output.take()
        self.exit = WorkerExit(
            label=self.spec.label,
            rank=self.spec.rank,
            pid=self.process.pid,
            code=code if code >= 0 else 128 - code,
            signal=-code if code < 0 else None,
            seconds=time.monotonic() - self.started,
            stopped=stopping,
            log_file=self.spec.log_file,
            tail=self.output.last_lines(),
        )
        return self.exit


def supervise(
    specs: Sequence[WorkerSpec],
    inbox: SignalInbox,
    console: Console,
    event: Event,
    stop_timeout: float,
    hurry: int = signal.SIGKILL,
) -> RunResult:
    """Runs the processes to their end; a stop signal, or the first failure, ends them all.

    `stop_timeout` (seconds) lies between SIGTERM and SIGKILL; at a further stop signal the processes get
    `hurry` at once. Whatever happens, no process of the plan's groups is left.
    """
    crew = _Crew(inbox, console, event, stop_timeout, hurry)
    try:
        crew.start(specs)
        crew.watch()
    finally:
        crew.sweep()
    return RunResult(tuple(crew.exits), crew.not_started)


class _Crew:
    """The processes that run, and whether they are being stopped."""

    def __init__(
        self, inbox: SignalInbox, console: Console, event: Event, stop_timeout: float, hurry: int
    ) -> None:
        self.exits: List[WorkerExit] = []
        self.not_started: Optional[BootError] = None
        self._inbox = inbox
        self._console = console
        self._event = event
        self._stop_timeout = stop_timeout
        self._hurry = hurry
        self._workers: List[_Worker] = []
        self._deadline: Optional[float] = None
        self._killed = False
        self._stops_heard = 0
        self._selector = selectors.DefaultSelector()
        self._selector.register(inbox, selectors.EVENT_READ)

    def start(self, specs: Sequence[WorkerSpec]) -> None:
        """Starts all; when one cannot be started, the ones before it are stopped."""
        for spec in specs:
            if self._inbox.stops:
                return
            try:
                worker = _Worker(spec, self._console)
            except (OSError, CannotCreate) as error:
                self.not_started = error if isinstance(error, CannotCreate) else _spawn_error(spec, error)
                self._begin_stop(str(self.not_started))
                return
            self._workers.append(worker)
            self._selector.register(worker.output, selectors.EVENT_READ, worker)
            self._event(
                "start", label=spec.label, rank=spec.rank, pid=worker.process.pid, log_file=spec.log_file
            )

    def watch(self) -> None:
        """Returns when every process has ended, or cannot be ended."""
        while any(worker.exit is None for worker in self._workers):
            self._pump()
            self._reap()
            if self._deadline is None:
                self._stop_on_signal_or_failure()
            elif not self._escalate():
                return

    def sweep(self) -> None:
        """Ends what the processes left behind in their groups, and takes their last output."""
        for worker in self._workers:
            end_group(worker.process.pid)
            worker.output.finish()
        self._selector.close()

    def _pump(self) -> None:
        timeout = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        for key, _ in self._selector.select(timeout):
            if key.data is None:
                self._inbox.drain()
            elif key.data.output.pump() is None:
                self._selector.unregister(key.fileobj)

    def _reap(self) -> None:
        for worker in self._workers:
            ended = worker.look(stopping=self._deadline is not None)
            if ended is not None:
                self.exits.append(ended)
                self._event(
                    "exit", label=ended.label, rank=ended.rank, pid=ended.pid, code=ended.code,
                    signal=ended.signal, seconds=ended.seconds, stopped=ended.stopped,
                )  # fmt: skip

    def _stop_on_signal_or_failure(self) -> None:
        failed = RunResult(tuple(self.exits)).first_failure
        if self._inbox.stops:
            self._begin_stop(f"{signal_name(self._inbox.stops[0])} received")
        elif failed is not None:
            self._begin_stop(f"{failed.label} {failed.how()}")

    def _begin_stop(self, reason: str) -> None:
        self._deadline = time.monotonic() + self._stop_timeout
        self._stops_heard = max(1, len(self._inbox.stops))
        running = self._running()
        if running:
            self._console.line(f"[ma_boot] {reason}: stopping {', '.join(running)}")
        self._event("stop", reason=reason, running=running)
        self._signal_all(signal.SIGTERM)

    def _escalate(self) -> bool:
        """SIGKILL at the deadline, `hurry` for a further stop signal; False if even SIGKILL did not help."""
        now = time.monotonic()
        if len(self._inbox.stops) > self._stops_heard and not self._killed:
            self._stops_heard = len(self._inbox.stops)
            self._kill(self._hurry)
        elif self._deadline is not None and now >= self._deadline:
            if self._killed:
                self._event("unkillable", left=self._running())
                self._console.line(f"[ma_boot] SIGKILL did not end {', '.join(self._running())}")
                return False
            self._kill(signal.SIGKILL)
        return True

    def _kill(self, signum: int) -> None:
        if signum == signal.SIGKILL:
            self._killed = True
            self._deadline = time.monotonic() + UNKILLABLE_SECONDS
        self._event("kill", signal=signum, left=self._running())
        self._signal_all(signum)

    def _running(self) -> List[str]:
        return [worker.spec.label for worker in self._workers if worker.exit is None]

    def _signal_all(self, signum: int) -> None:
        for worker in self._workers:
            signal_group(worker.process.pid, signum)


def _spawn_error(spec: WorkerSpec, error: OSError) -> BootError:
    message = f"{spec.label} could not be started: {error.filename or spec.argv[0]}: {error.strerror}"
    return NotFound(message) if error.errno == errno.ENOENT else NotExecutable(message)
