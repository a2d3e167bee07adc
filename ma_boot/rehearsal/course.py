"""The course of a rehearsed job: its starts one after the other, and the faults that come meanwhile."""

from __future__ import annotations

import shutil
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from ma_boot.errors import CannotCreate
from ma_boot.modelarts import instance_name
from ma_boot.node import World
from ma_boot.processes import Task
from ma_boot.rehearsal.faults import Fault, InjectedFault
from ma_boot.rehearsal.injection.injector import Injector, why_not_injected
from ma_boot.rehearsal.injection.watch import Watch
from ma_boot.rehearsal.leftovers import end_left_over
from ma_boot.rehearsal.node_specs import Setting, fetch_inputs, make_nodes, node_spec
from ma_boot.rehearsal.platform import starts
from ma_boot.rehearsal.platform.starts import Counts
from ma_boot.rehearsal.platform.table_writer import write_late
from ma_boot.rehearsal.platform.table_writes import Write, renewed, stages, writes
from ma_boot.reporting import RunResult
from ma_boot.supervisor import Limits, supervise

_LOOK_SECONDS = 0.01
_FROM_THE_START = ("absent", "disk-full", "table-late")
_CANCEL_SECONDS = 10.0  # what runs beside a start looks at its event every few milliseconds


class Course:
    """`run` goes through all starts.

    `came` are the faults in their order, `missed` says why each other one did not come. `ended` is when the
    last start was over, on the monotonic clock, `starts` how many there were; `left` are processes of the
    job that nothing had ended by then.
    """

    def __init__(self, setting: Setting, limits: Limits, world: World) -> None:
        self.injected: List[InjectedFault] = []
        self.missed: Dict[Fault, str] = {}
        self.ended = 0.0
        self.starts = 0
        self.left: List[int] = []
        self._setting = setting
        self._limits = limits
        self._world = world
        self._lock = threading.Lock()
        self._shown: Dict[int, str] = {}
        self._injector = Injector(setting.rehearsal.faults, self._note)

    def run(self) -> RunResult:
        """The result of the last start: those that the platform makes after a fault replace one another."""
        counts = starts.first_start(self._setting.job.nodes)
        kept: Sequence[int] = ()
        while True:
            watch = self._watch()
            run = self._one_start(counts, kept, watch)
            self.ended = time.monotonic()
            self.starts += 1
            self.left += end_left_over(self._setting.job)
            self._tell_missed(watch)
            fault, self._injector.restarts_job = self._injector.restarts_job, None
            if fault is None or run.succeeded or self._world.inbox.stops:
                return run
            counts = _next(counts, fault)
            kept = [node for node, count in enumerate(counts) if count.started > 1]
            self._renew([node for node in range(len(counts)) if node not in kept])
            self._world.journal.say(f"the platform starts the job again ({fault})")

    def _one_start(self, counts: Tuple[Counts, ...], kept: Sequence[int], watch: Watch) -> RunResult:
        setting = self._setting
        seen = starts.seen(setting.job, counts, setting.exact)
        specs = [node_spec(setting, seen, node, self._world) for node in self._present()]
        for fault in setting.rehearsal.faults:
            if fault.kind in _FROM_THE_START:
                self._note(fault, None)
        with (
            self._beside("rank table", lambda cancel: self._write_tables(self._tables(seen, kept), cancel)),
            self._beside("faults", lambda cancel: self._injector.run(watch, cancel)),
            self._beside("faults of OBS", self._watch_obs),
        ):
            world = self._world
            run = supervise(
                specs, self._limits, world.inbox, world.journal, world.environ, instance_name(world.environ)
            )
        self._note_obs()
        return run

    def _tables(self, seen: starts.SeenJob, kept: Sequence[int]) -> List[Write]:
        """A node in its old container finds its old table: one that another node's change makes wrong is
        replaced, and one that was not completed yet still will be."""
        delay, table = self._setting.rehearsal.rank_table_delay, starts.rank_table(seen)
        fresh = [node for node in range(seen.nodes) if node not in kept]
        if not kept:
            return writes(table, fresh, delay, self._setting.rehearsal.faults)
        if fresh:
            return writes(table, fresh, delay) + renewed(table, kept, delay)
        return writes(table, [node for node in kept if self._shown.get(node) != stages(table)[-1]], delay)

    def _write_tables(self, planned: Sequence[Write], cancel: threading.Event) -> None:
        def note(write: Write) -> None:
            self._shown[write.node] = write.text
            if write.fault is not None:
                self._note(write.fault, None)

        in_order = sorted(planned, key=lambda write: write.at)
        try:
            write_late(in_order, self._setting.job.table_dir, cancel, note)
        except CannotCreate as error:
            self._world.journal.say(str(error))  # at once: the nodes wait for the table, maybe half an hour
            raise

    def _watch_obs(self, cancel: threading.Event) -> None:
        while not cancel.wait(_LOOK_SECONDS):
            self._note_obs()

    def _note_obs(self) -> None:
        for fault in self._setting.obs.come() if self._setting.obs else ():
            self._note(fault, None)

    @contextmanager
    def _beside(self, name: str, work: Callable[[threading.Event], None]) -> Iterator[None]:
        task = Task(name, work, self._world.inbox)
        try:
            yield
        finally:
            task.cancel()
            task.wait(lambda: None, time.monotonic() + _CANCEL_SECONDS)
        task.check()

    def _note(self, fault: Fault, problem: Optional[str]) -> None:
        with self._lock:
            if any(one.fault is fault for one in self.injected):
                return
            self.injected.append(InjectedFault(fault, time.monotonic(), problem))
        self._world.journal.event("fault", fault=str(fault), problem=problem)
        self._world.journal.say(f"fault: {fault}" + (f": {problem}" if problem else ""))

    def _tell_missed(self, watch: Watch) -> None:
        watch.poll()
        open_faults = set(self._setting.rehearsal.faults) - {one.fault for one in self.injected}
        self.missed = {fault: why_not_injected(fault, watch) for fault in open_faults}

    def _watch(self) -> Watch:
        job = self._setting.job
        events: Dict[int, Path] = {
            node: Path(job.log_dir(node), f"{job.log_name}-node-{node}-events.jsonl")
            for node in self._present()
        }
        return Watch(Path(job.events_file), events)

    def _present(self) -> List[int]:
        """The nodes that start at all."""
        absent = {fault.node for fault in self._setting.rehearsal.faults if fault.kind == "absent"}
        return [node for node in range(self._setting.job.nodes) if node not in absent]

    def _renew(self, nodes: Sequence[int]) -> None:
        """New containers: nothing is left of the old ones."""
        for node in nodes:
            shutil.rmtree(self._setting.job.node_root(node), ignore_errors=True)
        setting, inbox = self._setting, self._world.inbox
        make_nodes(setting.job, nodes, setting.code, setting.files, inbox)
        fetch_inputs(setting, nodes, inbox)


def _next(counts: Tuple[Counts, ...], fault: Fault) -> Tuple[Counts, ...]:
    return starts.restarted(counts) if fault.kind == "restart" else starts.rescheduled(counts, fault.node)
