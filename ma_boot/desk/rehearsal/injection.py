"""Injects the faults of ranks and nodes from outside, by signals, when the job's events show their moment.

A `Watch` follows one start of the job by its event files; the rules are in `injection_rules`.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Callable

from ma_boot.desk.rehearsal.faults import Fault
from ma_boot.desk.rehearsal.injection_rules import (
    INJECTED,
    RESTARTS,
    JobState,
    PlannedSignal,
    has_target_rank,
    is_due,
    signals_of,
)
from ma_boot.desk.rehearsal.node_processes import NodeProcesses, StartedNode, StartedRank
from ma_boot.desk.rehearsal.platform.simulated_job import SimulatedJob
from ma_boot.desk.rehearsal.simulated_cards import break_card
from ma_boot.processes.signals import signal_process
from ma_boot.report.growing_file import GrowingFile
from ma_boot.report.timeline.events import Event, read_events

_POLL_SECONDS = 0.01


class Watch:
    """One start of a job: `poll` reads the new events of the rehearsal and its nodes into `state`.

    `processes` reaches the ranks and nodes. Output is read only of the ranks in `counted`.
    """

    def __init__(
        self,
        job: SimulatedJob,
        nodes: Sequence[int],
        processes: NodeProcesses,
        counted: Collection[int] = (),
    ) -> None:
        """Create it before the start of `nodes`: events already in the files belong to an earlier start."""
        self.job = job
        self.processes = processes
        self.state = JobState(len(nodes))
        self._counted = counted
        self._outputs: dict[int, tuple[StartedRank, GrowingFile]] = {}
        self._own = GrowingFile.from_now_on(Path(job.events_file))
        self._events = {
            node: GrowingFile.from_now_on(Path(job.log_dir(node), f"{job.log_name}-node-{node}-events.jsonl"))
            for node in nodes
        }

    def poll(self) -> None:
        """Reads the new events, and the new output of ranks whose lines are counted."""
        for event in _new_events(self._own):
            self.state = self.state.after_event(event)
        for node, file in self._events.items():
            for event in _new_events(file):
                self.state = self.state.after_event_of(node, event, Path(self.job.log_dir(node)))
        for rank in self._counted:
            if rank in self.state.ranks:
                self.state = self.state.after_lines(rank, self._output_of(rank).count_lines())

    def first_running(self, ranks: Sequence[StartedRank]) -> StartedRank | None:
        """Returns the first of these ranks that is running."""
        running = (rank for rank in ranks if not rank.has_ended and self.processes.exists(rank))
        return next(running, None)

    def _output_of(self, rank: int) -> GrowingFile:
        """The output of a rank; a rank that was started again has a new file."""
        started = self.state.ranks[rank]
        if rank not in self._outputs or self._outputs[rank][0].pid != started.pid:
            self._outputs[rank] = (started, GrowingFile(started.log))
        return self._outputs[rank][1]


def _new_events(file: GrowingFile) -> tuple[Event, ...]:
    return read_events("\n".join(file.new_lines()), str).events


class Injector:
    """Injects each fault once, at its moment, while one start of the job runs.

    `restarts_job` is set to the injected fault after which the platform starts the job again. `note` is
    called with each injected fault and its problem (None if there was none).
    """

    def __init__(self, faults: Sequence[Fault], note: Callable[[Fault, str | None], None]) -> None:
        self.restarts_job: Fault | None = None
        self._pending = [fault for fault in faults if fault.kind in INJECTED and not fault.follows_failures]
        self._note = note
        self._scheduled: list[tuple[float, PlannedSignal]] = []  # times on the monotonic clock

    def run(self, watch: Watch, cancel: threading.Event) -> None:
        """Returns when nothing is left to do, or when cancelled."""
        while (self._pending or self._scheduled) and not cancel.wait(_POLL_SECONDS):
            watch.poll()
            now = time.monotonic()
            for fault in [fault for fault in self._pending if is_due(fault, watch.state, now)]:
                # Last, as it may take a call to a container engine.
                rank = watch.first_running(watch.state.ranks_of(fault))
                if rank is not None or not has_target_rank(fault):
                    self._pending.remove(fault)
                    self._inject(fault, watch, rank)
            for at, planned in [entry for entry in self._scheduled if entry[0] <= now]:
                self._scheduled.remove((at, planned))
                with contextlib.suppress(OSError):  # the rank or node has ended meanwhile
                    _send(planned, watch.processes)

    def _inject(self, fault: Fault, watch: Watch, rank: StartedRank | None) -> None:
        if fault.kind in RESTARTS:
            self.restarts_job = fault
        try:
            if fault.kind == "bad-card":
                break_card(watch.job.home(fault.node or 0))
            for planned in signals_of(fault, watch.state, rank):
                if planned.after:
                    self._scheduled.append((time.monotonic() + planned.after, planned))
                else:
                    _send(planned, watch.processes)
        except OSError as error:
            self._note(fault, f"injection failed: {error.strerror or error}")
        else:
            self._note(fault, None)


def _send(planned: PlannedSignal, processes: NodeProcesses) -> None:
    if planned.target is None:
        signal_process(os.getpid(), planned.signum)
    elif isinstance(planned.target, StartedNode):
        processes.signal_node(planned.target, planned.signum)
    else:
        processes.signal_rank(planned.target, planned.signum, planned.with_children)
