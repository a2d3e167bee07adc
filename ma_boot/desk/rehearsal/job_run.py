"""The starts of a rehearsed job, one after the other, with the faults that are injected meanwhile.

first start ──> run ──> ended ──> a fault restarts the job? ── no ──> FinishedJob
                 ^                          │ yes
                 └── new containers <───────┘
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Callable

from ma_boot.desk.rehearsal.faults import Fault
from ma_boot.desk.rehearsal.injected_faults import InjectedFaults
from ma_boot.desk.rehearsal.injection import Injector, Watch
from ma_boot.desk.rehearsal.injection_rules import why_not_injected
from ma_boot.desk.rehearsal.leftovers import Leftovers
from ma_boot.desk.rehearsal.node_processes import NodeProcesses
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
from ma_boot.processes.task import Task
from ma_boot.report.result import RunResult

# Kinds that take effect before the nodes start.
_FROM_THE_START = ("absent", "disk-full", "table-late")
# Seconds; tasks check for cancellation every few milliseconds.
_CANCEL_SECONDS = 10.0


@dataclass(frozen=True)
class NodeRunner:
    """The way to run the nodes of a job: as processes, or in containers.

    `start_of` returns the job as its nodes see it at a start, `spec_of` the process that runs a node then;
    `processes` reaches the nodes and ranks that run.
    """

    start_of: Callable[[tuple[StartCounts, ...]], SimulatedJob]
    spec_of: Callable[[SimulatedJob, int], WorkerSpec]
    processes: NodeProcesses


@dataclass(frozen=True)
class FinishedJob:
    """A job whose last start ended with `result` at `ended` (seconds on the monotonic clock).

    `injected` may grow until the platform's last upload has ended. `missed` has the reason for each fault
    that was not injected by `ended`; `left` are the PIDs of processes that outlived their start.
    """

    result: RunResult
    ended: float
    injected: InjectedFaults
    missed: Mapping[Fault, str]
    left: Sequence[int]


class JobRun:
    """Runs all starts of a job."""

    def __init__(self, setup: Setup, runner: NodeRunner, limits: Limits, context: ProcessContext) -> None:
        """`limits` are those of the processes that run the nodes."""
        self._setup = setup
        self._runner = runner
        self._limits = limits
        self._context = context
        self._faults = setup.rehearsal.faults
        self._injected = InjectedFaults(context.journal)
        self._injector = Injector(self._faults, self._injected.note)
        self._leftovers = Leftovers()
        # Restarts of the job after failures.
        self._restarts = 0
        # Contents of the nodes' rank table files.
        self._written: dict[int, str] = {}
        if setup.obs is not None:
            setup.obs.inject(setup.rehearsal.faults_of("obs"), self._injected.note)

    def run(self) -> FinishedJob:
        """Starts the job, and again after each fault that makes the platform do so.

        Raises:
            BootError: a new container's directories or inputs, or a rank table, cannot be provided.
            Stopped: a stop signal arrived between two starts.
        """
        counts = first_start(self._setup.job.nodes)
        kept: Sequence[int] = ()
        lines_of = {fault.rank for fault in self._faults if fault.line is not None and fault.rank is not None}
        while True:
            watch = Watch(self._setup.job, self._present(), self._runner.processes, counted=lines_of)
            try:
                result = self._run_start(counts, kept, watch)
            finally:
                ended = time.monotonic()
                self._leftovers.kill(self._context.journal.say)
            watch.poll()
            fault, self._injector.restarts_job = self._injector.restarts_job, None
            fault = fault or self._restart_after(result)
            if fault is None or result.succeeded or self._context.inbox.stops:
                missing = self._injected.missing(self._faults)
                return FinishedJob(
                    result=result,
                    ended=ended,
                    injected=self._injected,
                    missed={missed: why_not_injected(missed, watch.state) for missed in missing},
                    left=self._leftovers.pids,
                )
            counts = restarted(counts) if fault.kind == "restart" else rescheduled(counts, fault.node)
            kept = [node for node, count in enumerate(counts) if count.started > 1]
            self._replace_containers([node for node in range(len(counts)) if node not in kept])
            self._context.journal.say(f"the platform starts the job again ({fault})")

    def _restart_after(self, result: RunResult) -> Fault | None:
        """Returns the fault by which the platform starts the job again after this end; None for none."""
        fault = next((fault for fault in self._faults if fault.follows_failures), None)
        if fault is None or result.succeeded or self._restarts >= (fault.times or 0):
            return None
        self._restarts += 1
        self._injected.note(fault)
        return fault

    def _run_start(self, counts: tuple[StartCounts, ...], kept: Sequence[int], watch: Watch) -> RunResult:
        context = self._context
        start = self._runner.start_of(counts)
        specs = [self._runner.spec_of(start, node) for node in self._present()]
        for fault in self._faults:
            if fault.kind in _FROM_THE_START:
                self._injected.note(fault)
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
        """Returns the writes of one start.

        A node that keeps its container still has its old table, which is written again only if it was not
        completed, or if another node was rescheduled.
        """
        delay = self._setup.rehearsal.options.rank_table_delay
        new = [node for node in range(start.nodes) if node not in kept]
        if not kept:
            return writes(start, new, delay, self._faults)
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
                # Reported at once: the nodes may wait for the table until their timeout.
                self._context.journal.say(str(error))
                raise
            self._written[write.node] = write.text
            if write.fault is not None:
                self._injected.note(write.fault)

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

    def _present(self) -> list[int]:
        """Returns the nodes that are started at all."""
        absent = {fault.node for fault in self._faults if fault.kind == "absent"}
        return [node for node in range(self._setup.job.nodes) if node not in absent]

    def _replace_containers(self, nodes: Sequence[int]) -> None:
        for node in nodes:
            shutil.rmtree(self._setup.job.sandbox_root(node), ignore_errors=True)
        self._setup.make_nodes(nodes, self._context)
