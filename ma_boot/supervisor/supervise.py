"""Starts the processes of a plan, all or none, watches them, and ends them; a failure is a value.

One thread sleeps in the kernel, which wakes it for output, for a process's end and for a stop signal. The
ladder of a stop is SIGTERM to every process group, one deadline for all of them, SIGKILL.
"""

from __future__ import annotations

import errno
import math
import selectors
import signal
import time
from dataclasses import dataclass, replace
from typing import List, Mapping, Optional, Sequence, Set

from ma_boot.errors import BootError, CannotCreate, CommandNotFound, NotExecutable, signal_name
from ma_boot.launch import WorkerSpec
from ma_boot.processes import (
    MARKER_VARIABLE,
    SignalInbox,
    guarded,
    own_marker,
    processes_marked,
    reap_orphans,
    signal_group,
    signal_process,
)
from ma_boot.reporting.journal import Journal
from ma_boot.reporting.result import RunResult, WorkerExit
from ma_boot.supervisor.hang_detector import HangWatch
from ma_boot.supervisor.oom import OomCounters
from ma_boot.supervisor.worker import Worker

UNKILLABLE_SECONDS = (
    10.0  # a process in an uninterruptible sleep outlives SIGKILL: it is reported, not waited for
)
OUTPUT_SECONDS = 0.002  # between two looks at the output: a pipe holds what is printed meanwhile
REST_SECONDS = 1.0  # at the least, for what the processes left behind
QUIET_BYTES = 1 << 29  # half of what the platform's collector takes (1 GiB): the rest is for the first rank
SILENT_BYTES = (1 << 30) - (1 << 24)  # and the end for ma_boot's own report


@dataclass(frozen=True)
class Limits:
    """How patient the supervisor is, in seconds.

    `stop_timeout` lies between SIGTERM and SIGKILL; at a further stop signal the processes get `hurry` at
    once. `hang_timeout` is None where nobody watches for hangs; `hang_action` is `report` or `stop`.
    `quiet_bytes` and `silent_bytes` on the console are where all processes but the first, and then that one
    too, go on in their log files only (`modelarts-pipe: log length overflow(max:1073741824...`).
    """

    stop_timeout: float = 15.0
    hurry: int = signal.SIGKILL
    hang_timeout: Optional[float] = None
    hang_action: str = "report"
    quiet_bytes: int = QUIET_BYTES
    silent_bytes: int = SILENT_BYTES


def supervise(
    specs: Sequence[WorkerSpec],
    limits: Limits,
    inbox: SignalInbox,
    journal: Journal,
    environ: Mapping[str, str],
    container: str,
) -> RunResult:
    """Runs the processes to their end; a stop signal, or the first failure, ends them all.

    `environ` is this process's environment, `container` the name of its container (empty if it has none).
    Whatever happens, nothing that they started is left: not when this function returns or raises, and not
    when ma_boot itself is killed.
    """
    marker = own_marker(container)
    with guarded(marker, environ) as guard_pid:
        crew = _Crew(marker, guard_pid, inbox, journal, limits)
        try:
            crew.start(specs)
            crew.watch()
            crew.end_rest()
        finally:
            crew.sweep()
    return crew.result()


class _Crew:
    """The processes that run, and whether they are being stopped."""

    def __init__(
        self, marker: str, guard_pid: int, inbox: SignalInbox, journal: Journal, limits: Limits
    ) -> None:
        self._marker = marker
        self._guard_pid = guard_pid
        self._inbox = inbox
        self._console = console = journal.console
        self._event = journal.event
        self._limits = limits
        self._workers: List[Worker] = []
        self._exits: List[WorkerExit] = []
        self._not_started: Optional[BootError] = None
        self._left: List[str] = []
        self._silent: Set[Worker] = set()
        self._deadline: Optional[float] = None
        self._killed = False
        self._stops_heard = 0
        self._memory = OomCounters()
        self._hang = HangWatch(limits.hang_timeout, inbox, console.line)
        self._hung: Sequence[str] = ()
        self._shown_to = [limits.silent_bytes, limits.quiet_bytes]
        self._outputs = selectors.EpollSelector()  # a descriptor itself: all outputs as one
        self._selector = selectors.EpollSelector()  # ready descriptors come in the order of their events
        self._selector.register(inbox, selectors.EVENT_READ)
        self._selector.register(self._outputs, selectors.EVENT_READ)
        self._listening = True
        self._output_from = 0.0
        console.room_again = inbox.wake

    def start(self, specs: Sequence[WorkerSpec]) -> None:
        """Starts all; when one cannot be started, the ones before it are stopped."""
        for spec in specs:
            if self._inbox.stops:
                return
            try:
                worker = Worker(spec, {MARKER_VARIABLE: self._marker}, self._console)
            except (OSError, CannotCreate) as error:
                self._not_started = error if isinstance(error, CannotCreate) else _spawn_error(spec, error)
                self._begin_stop(str(self._not_started))
                return
            self._workers.append(worker)
            self._silent.add(worker)
            self._outputs.register(worker.output, selectors.EVENT_READ, worker)
            if worker.descriptor is not None:
                self._selector.register(worker.descriptor, selectors.EVENT_READ, worker)
            self._event(
                "start", label=spec.label, rank=spec.rank, pid=worker.pid, cores=list(spec.cores),
                log_file=spec.log_file,
            )  # fmt: skip

    def watch(self) -> None:
        """Returns when every process has ended, or cannot be ended."""
        while self._running() and not self._left:
            self._wait(self._patience())
            if self._deadline is None:
                self._stop_on_signal_or_failure()
                self._look_for_hangs()
            else:
                self._escalate(self._running())

    def end_rest(self) -> None:
        """Ends what the processes left behind, in their groups or in sessions of their own."""
        rest = self._rest()
        if rest and not self._left:
            self._say(f"{', '.join(rest)} left processes behind: stopping them")
            self._begin_rest()
        while rest and not self._left:
            self._wait(self._patience())
            rest = self._rest()
            self._escalate(rest)

    def sweep(self) -> None:
        """Ends whatever is there still, and takes the last output."""
        self._signal_groups(signal.SIGKILL)
        for pid in processes_marked(self._marker):
            signal_process(pid, signal.SIGKILL)
        for worker in self._workers:
            worker.close()
        reap_orphans(self._own())
        self._console.room_again = lambda: None
        self._outputs.close()
        self._selector.close()
        if self._console.dropped_lines:
            self._event("dropped", lines=self._console.dropped_lines)

    def result(self) -> RunResult:
        """How it went."""
        return RunResult(tuple(self._exits), self._not_started, tuple(self._hung), tuple(self._left))

    def _wait(self, patience: Optional[float]) -> None:
        """Sleeps until something happens, takes the output, and notes who ended, in that order."""
        now_ns = None
        ended: List[Worker] = []
        for key, _ in self._selector.select(patience):
            now_ns = now_ns or time.monotonic_ns()
            if key.data is not None:
                ended.append(key.data)
            elif key.fileobj is self._inbox:
                self._inbox.drain()
            else:
                self._pump()
        ended += [worker for worker in self._workers if worker.descriptor is None]
        for worker in ended:
            self._reap(worker, now_ns or time.monotonic_ns())
        reap_orphans(self._own())

    def _patience(self) -> Optional[float]:
        """How long the kernel may let us sleep.

        Output rests while the console has no room, and a moment after each time that it was taken: so
        writers at full speed are read in large pieces.
        """
        pause = self._console.pause() or max(0.0, self._output_from - time.monotonic())
        if pause and self._listening:
            self._selector.unregister(self._outputs)
        elif not pause and not self._listening:
            self._selector.register(self._outputs, selectors.EVENT_READ)
        self._listening = not pause
        deadline = math.inf if self._deadline is None else self._deadline - time.monotonic()
        soonest = min(deadline, pause or math.inf, self._hang.next_look())
        return None if soonest == math.inf else max(0.0, soonest)

    def _pump(self) -> None:
        for key, _ in self._outputs.select(0):
            if key.data.output.pump() is None:
                self._outputs.unregister(key.fileobj)
            self._note_first_output(key.data)
        self._output_from = time.monotonic() + OUTPUT_SECONDS
        if self._shown_to and self._console.accepted >= self._shown_to[-1]:
            self._quiet_down(self._shown_to.pop())

    def _note_first_output(self, worker: Worker) -> None:
        if worker in self._silent and worker.output.first_ns is not None:
            self._silent.remove(worker)
            spec = worker.spec
            self._event("first-output", label=spec.label, rank=spec.rank, first_ns=worker.output.first_ns)

    def _quiet_down(self, size: int) -> None:
        """The platform's collector takes 1 GiB of output, then nothing: not even the end's report."""
        hidden = [worker for worker in self._workers if worker.output.shown]
        for worker in hidden[1:] if self._shown_to else hidden:
            worker.output.hide()
        who = "all processes but the first" if self._shown_to else "all processes"
        self._say(f"{size >> 20} MiB of output: {who} go on in their log files only (the log ends at 1 GiB)")

    def _reap(self, worker: Worker, now_ns: int) -> None:
        if worker.descriptor is not None and worker.process.poll() is not None:
            self._selector.unregister(worker.descriptor)
        ended = worker.look(now_ns, stopping=self._deadline is not None)
        if ended is None:
            return
        if ended.code in (137, 247) and not ended.stopped:  # 247: -9 as a launcher in between says it
            ended = replace(ended, oom=self._memory.evidence())
        self._exits.append(ended)
        self._note_first_output(worker)
        self._event(
            "exit", label=ended.label, rank=ended.rank, pid=ended.pid, code=ended.code, signal=ended.signal,
            seconds=ended.seconds, ended_ns=ended.ended_ns, stopped=ended.stopped, oom=ended.oom,
        )  # fmt: skip

    def _stop_on_signal_or_failure(self) -> None:
        if not self._inbox.stops and self.result().first_failure is None:
            return
        self._wait(0)  # who has ended by now did so by itself
        failed = self.result().first_failure
        if self._inbox.stops:
            self._begin_stop(f"{signal_name(self._inbox.stops[0])} received")
        elif failed is not None:
            self._begin_stop(f"{failed.label} {failed.how()}")

    def _look_for_hangs(self) -> None:
        running = [worker for worker in self._workers if worker.exit is None]
        hung = self._hang.look(running)
        if hung:
            self._event("hang", labels=hung)
            if self._limits.hang_action == "stop" and self._deadline is None:
                self._hung = hung
                self._begin_stop(f"{', '.join(hung)} hung for {self._limits.hang_timeout:.0f} s")

    def _begin_stop(self, reason: str) -> None:
        self._deadline = time.monotonic() + self._limits.stop_timeout
        self._stops_heard = max(1, len(self._inbox.stops))
        running = self._running()
        if running:
            self._say(f"{reason}: stopping {', '.join(running)}")
        self._event("stop", reason=reason, running=running)
        self._signal_groups(signal.SIGTERM)

    def _begin_rest(self) -> None:
        """The same ladder for what is left: within the same deadline, if there is one, and a second."""
        now = time.monotonic()
        self._killed = False
        self._stops_heard = max(1, len(self._inbox.stops))
        self._deadline = max(self._deadline or now + self._limits.stop_timeout, now + REST_SECONDS)
        self._signal_groups(signal.SIGTERM)
        self._signal_strays(signal.SIGTERM)

    def _escalate(self, left: List[str]) -> None:
        """SIGKILL at the deadline, `hurry` for a further stop signal; what even that does not end is left."""
        if len(self._inbox.stops) > self._stops_heard and not self._killed:
            self._stops_heard = len(self._inbox.stops)
            self._kill(self._limits.hurry, left)
        elif self._deadline is not None and left and time.monotonic() >= self._deadline:
            if self._killed:
                self._left = left
                self._event("unkillable", left=left)
                self._say(f"SIGKILL did not end {', '.join(left)}")
            else:
                self._kill(signal.SIGKILL, left)

    def _kill(self, signum: int, left: List[str]) -> None:
        if signum == signal.SIGKILL:
            self._killed = True
            self._deadline = time.monotonic() + UNKILLABLE_SECONDS
        self._event("kill", signal=signum, left=left)
        self._signal_groups(signum)
        if not self._running():
            self._signal_strays(signum)

    def _running(self) -> List[str]:
        return [worker.spec.label for worker in self._workers if worker.exit is None]

    def _rest(self) -> List[str]:
        """Whose group has members still, and processes that left their group."""
        groups = [worker.spec.label for worker in self._workers if not worker.gone]
        strays = len(processes_marked(self._marker))
        return groups or ([f"{strays} processes"] if strays else [])

    def _signal_groups(self, signum: int) -> None:
        for worker in self._workers:
            if not worker.gone:
                signal_group(worker.pid, signum)

    def _signal_strays(self, signum: int) -> None:
        for pid in processes_marked(self._marker):
            signal_process(pid, signum)

    def _own(self) -> List[int]:
        return [self._guard_pid, *(worker.pid for worker in self._workers if worker.exit is None)]

    def _say(self, text: str) -> None:
        self._console.line(f"[ma_boot] {text}")


def _spawn_error(spec: WorkerSpec, error: OSError) -> BootError:
    message = f"{spec.label} could not be started: {error.filename or spec.argv[0]}: {error.strerror}"
    return CommandNotFound(message) if error.errno == errno.ENOENT else NotExecutable(message)
