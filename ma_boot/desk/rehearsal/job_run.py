"""The starts of a rehearsed job, one after the other, with the faults that are injected meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, NamedTuple

from ma_boot.desk.rehearsal.faults import Fault
from ma_boot.desk.rehearsal.injection import Injector, NodeProcesses, Watch, why_not_injected
from ma_boot.desk.rehearsal.platform.simulated_job import (
    SimulatedJob,
    StartCounts,
    first_start,
    rescheduled,
    restarted,
)
from ma_boot.desk.rehearsal.platform.table_writes import TableWrite, renewed, stages, writes
from ma_boot.desk.rehearsal.platform_side import write_table
from ma_boot.desk.rehearsal.setup import Setup
from ma_boot.errors import CannotCreate
from ma_boot.node.boot.process_context import ProcessContext
from ma_boot.node.launch.launch_plan import WorkerSpec
from ma_boot.node.supervisor.supervise import Limits, supervise
from ma_boot.platform.modelarts.job import instance_name
from ma_boot.processes.children import reap_orphans
from ma_boot.processes.control_group import file_text
from ma_boot.processes.orphan_guard import descendants
from ma_boot.processes.signals import signal_process
from ma_boot.processes.task import Task
from ma_boot.report.result import RunResult
from ma_boot.wording import counted, list_first

_POLL_SECONDS = 0.01
_FROM_THE_START = ("absent", "disk-full", "table-late")
_CANCEL_SECONDS = 10.0  # tasks check for cancellation every few milliseconds
_LEFTOVER_SECONDS = 10.0  # the guard of a lost node needs only milliseconds
_MOST_NAMED = 5


StartOf = Callable[[tuple[StartCounts, ...]], SimulatedJob]
SpecOf = Callable[[SimulatedJob, int], WorkerSpec]


class Injection(NamedTuple):
    """When a fault was injected (seconds on the monotonic clock); `problem` says why that failed."""

    at: float
    problem: str | None = None


class JobRun:
    """`run` runs all starts of the job; then the attributes tell what happened.

    `injected` has the faults in their order, `missed` says why the others were not injected. `ended` is the
    end of the last start on the monotonic clock; `left` are the PIDs of processes of the job that outlived
    their start.
    """

    def __init__(
        self,
        setup: Setup,
        limits: Limits,
        context: ProcessContext,
        start_of: StartOf,
        spec_of: SpecOf,
        processes: NodeProcesses,
    ) -> None:
        """`start_of` is the job as its nodes see it at a start, `spec_of` what runs a node then, `processes`
        reaches what it runs."""
        self.injected: dict[Fault, Injection] = {}
        self.missed: dict[Fault, str] = {}
        self.ended = 0.0
        self.left: list[int] = []
        self._setup = setup
        self._limits = limits
        self._context = context
        self._start_of = start_of
        self._spec_of = spec_of
        self._processes = processes
        self._lock = threading.Lock()
        self._written: dict[int, str] = {}
        self._injector = Injector(setup.rehearsal.faults, self._note)
        if setup.obs is not None:
            setup.obs.inject(setup.rehearsal.faults_of("obs"), self._note)
        self._older = set(descendants(os.getpid(), {}))  # of a shell that `exec` has replaced

    def run(self) -> RunResult:
        """Starts the job, and again after each fault that makes the platform do so; the last start's result.

        Raises:
            BootError: a new container's directories or inputs, or a rank table, cannot be provided.
            Stopped: a stop signal arrived between two starts.
        """
        counts = first_start(self._setup.job.nodes)
        kept: Sequence[int] = ()
        while True:
            watch = Watch(self._setup.job, self._present(), self._processes)
            try:
                run = self._run_start(counts, kept, watch)
            finally:
                self.ended = time.monotonic()
                self._kill_leftovers()
            self._note_missed(watch)
            fault, self._injector.restarts_job = self._injector.restarts_job, None
            if fault is None or run.succeeded or self._context.inbox.stops:
                return run
            counts = restarted(counts) if fault.kind == "restart" else rescheduled(counts, fault.node)
            kept = [node for node, count in enumerate(counts) if count.started > 1]
            self._replace_containers([node for node in range(len(counts)) if node not in kept])
            self._context.journal.say(f"the platform starts the job again ({fault})")

    def _run_start(self, counts: tuple[StartCounts, ...], kept: Sequence[int], watch: Watch) -> RunResult:
        setup, context = self._setup, self._context
        start = self._start_of(counts)
        specs = [self._spec_of(start, node) for node in self._present()]
        for fault in setup.rehearsal.faults:
            if fault.kind in _FROM_THE_START:
                self._note(fault)
        with (
            self._beside("rank table", lambda cancel: self._write_tables(self._tables(start, kept), cancel)),
            self._beside("faults", lambda cancel: self._injector.run(watch, cancel)),
        ):
            return supervise(
                specs,
                self._limits,
                context.inbox,
                journal=context.journal,
                environ=context.environ,
                container=instance_name(context.environ),
            )

    def _tables(self, start: SimulatedJob, kept: Sequence[int]) -> list[TableWrite]:
        """The writes of one start. A node that keeps its container still has its old table, which is written
        again only if it was not completed, or if another node was rescheduled."""
        delay = self._setup.rehearsal.options.rank_table_delay
        new = [node for node in range(start.nodes) if node not in kept]
        if not kept:
            return writes(start, new, delay, self._setup.rehearsal.faults)
        if new:
            return writes(start, new, delay) + renewed(start, kept, delay)
        return writes(start, [node for node in kept if self._written.get(node) != stages(start)[-1]], delay)

    def _write_tables(self, planned: Sequence[TableWrite], cancel: threading.Event) -> None:
        started = time.monotonic()
        for write in sorted(planned, key=lambda write: write.at):
            if cancel.wait(max(0.0, started + write.at - time.monotonic())):
                return
            try:
                write_table(self._setup.job.table_file(write.node), write)
            except CannotCreate as error:
                self._context.journal.say(str(error))  # now: the nodes may wait for the table for long
                raise
            self._written[write.node] = write.text
            if write.fault is not None:
                self._note(write.fault)

    @contextmanager
    def _beside(self, name: str, work: Callable[[threading.Event], None]) -> Iterator[None]:
        """Runs a task during the block."""
        task = Task(name, work, self._context.inbox)
        try:
            yield
        finally:
            task.cancel()
            task.wait(lambda: None, time.monotonic() + _CANCEL_SECONDS)
        task.check()

    def _note(self, fault: Fault, problem: str | None = None) -> None:
        with self._lock:
            if fault in self.injected:
                return
            self.injected[fault] = Injection(time.monotonic(), problem)
        self._context.journal.event("fault", fault=str(fault), problem=problem)
        self._context.journal.say(f"fault: {fault}" + (f": {problem}" if problem else ""))

    def _note_missed(self, watch: Watch) -> None:
        watch.poll()
        missed = [fault for fault in self._setup.rehearsal.faults if fault not in self.injected]
        self.missed = {fault: why_not_injected(fault, watch) for fault in missed}

    def _present(self) -> list[int]:
        """The nodes that are started at all."""
        absent = {fault.node for fault in self._setup.rehearsal.faults if fault.kind == "absent"}
        return [node for node in range(self._setup.job.nodes) if node not in absent]

    def _replace_containers(self, nodes: Sequence[int]) -> None:
        for node in nodes:
            shutil.rmtree(self._setup.job.sandbox_root(node), ignore_errors=True)
        self._setup.make_nodes(nodes, self._context.inbox)

    def _kill_leftovers(self) -> None:
        """Waits for all that the nodes have started to end, and kills what does not."""
        left = self._left_after(_LEFTOVER_SECONDS)
        if not left:
            return
        named = list_first([f"{pid} ({_program(pid)})" for pid in left], _MOST_NAMED)
        count = counted(len(left), "process", "processes")
        self._context.journal.say(
            f"{count} outlived the nodes and {'is' if len(left) == 1 else 'are'} killed: {named}"
        )
        self.left += left
        until = time.monotonic() + _LEFTOVER_SECONDS
        while left and time.monotonic() < until:  # again: one may start another meanwhile
            for pid in left:
                signal_process(pid, signal.SIGKILL)
            left = self._left_after(_POLL_SECONDS)

    def _left_after(self, seconds: float) -> list[int]:
        """Returns processes of the nodes that still run after some seconds.

        All orphans of the nodes are adopted by this process, with any environment and session.
        """
        until = time.monotonic() + seconds
        while True:
            reap_orphans([])
            left = sorted(set(descendants(os.getpid(), {})) - self._older)
            if not left or time.monotonic() > until:
                return left
            time.sleep(_POLL_SECONDS)


def _program(pid: int) -> str:
    """The name of a process's program."""
    return file_text(Path(f"/proc/{pid}/comm")).strip() or "ended"
