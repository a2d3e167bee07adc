"""Ledger of the job during one start, on node 0: read at its beginning, written then and after each attempt.

It is no part of the training's result: errors are logged and suppressed. Only a failure that would repeat
ends a start.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Callable, NamedTuple, TypeVar

from ma_boot.errors import RepeatedFailure
from ma_boot.node.boot.checkpoint_phase import NodeCheckpoints
from ma_boot.node.boot.node_health import find_defect
from ma_boot.node.boot.options import RunOptions
from ma_boot.node.boot.process_context import ProcessContext
from ma_boot.node.checkpoints.records.documents import Documents, read_checkpoints
from ma_boot.node.checkpoints.records.keys import Place, step_text
from ma_boot.node.checkpoints.records.ledger_documents import LedgerDocuments
from ma_boot.node.launch.launch_plan import Placement
from ma_boot.node.observe.metrics.progress import last_step
from ma_boot.node.peers.job_restart import HARDWARE, AttemptEnd, RestartPolicy, Verdict, failure_kind
from ma_boot.node.peers.start_rule import RepeatedStart, broken_server, repeated_start
from ma_boot.node.transfers.progress import cancel_and_wait
from ma_boot.platform.modelarts.job import JobEnvironment
from ma_boot.platform.rank_table import RankTable
from ma_boot.processes.task import Task
from ma_boot.report.cause import Cause
from ma_boot.report.exit_report import Ending, exit_status
from ma_boot.report.job_ledger import (
    BEGUN,
    FAILED,
    REFUSED,
    STOPPED,
    SUCCEEDED,
    EntryKey,
    JobLedger,
    LedgerEntry,
    RunDigest,
    entry_fields,
    job_directory,
)
from ma_boot.report.result import RunResult, WorkerExit
from ma_boot.wording import Message
from path_mapping.stores.store import Store
from path_mapping.workers.retry import RetriedStore, RetryPolicy

# Seconds; max. time to read the ledger, and for a write. Neither a start nor an end waits longer for it.
READ_SECONDS = 20.0
WRITE_SECONDS = 5.0
# The same for each write after one that has failed.
LOST_SECONDS = 1.0
WITHOUT = "the job's ledger lacks an entry"

Result = TypeVar("Result")


class AttemptFacts(NamedTuple):
    """Facts on an attempt that has ended: the job's root cause, and the known reports of nodes."""

    run: RunResult | None
    cause: Cause | None
    checkpoints: NodeCheckpoints
    ends: Mapping[int, AttemptEnd] = {}
    outcome: str = FAILED


class LedgerRun(NamedTuple):
    """The place of the ledger and its store, the digests of this start, and the places of its checkpoints."""

    store: Store
    place: Place
    digest: RunDigest
    checkpoints: tuple[Place, ...] = ()


class Requests(NamedTuple):
    """Requests to OBS that run in a thread, and are given up after so many `seconds`, at the `deadline`."""

    task: Task[Any]
    seconds: float
    deadline: float


class LedgerOfStart:
    """The ledger of a job during one start, on node 0; `earlier` are the entries of the starts before."""

    def __init__(
        self, context: ProcessContext, options: RunOptions, job: JobEnvironment, run: LedgerRun
    ) -> None:
        self._context = context
        self._options = options
        self._job = job
        self._run = run
        self._identity = os.urandom(4).hex()
        # Monotonic seconds; beginning of the time that the next entry has paid.
        self._since = time.monotonic()
        self._servers: Mapping[int, str] = {}
        self._attempts = 0
        # The newest write: a restart does not wait for it.
        self._writing: Requests | None = None
        self._is_lost = False
        self.earlier = JobLedger()
        # Node 0's decision after the newest attempt.
        self.verdict: Verdict | None = None

    def begin(self) -> None:
        """Reads the earlier entries, and writes that this start has begun.

        Raises `RepeatedFailure` if it would repeat a failure, `StoreError`, `TimeoutError` and `Stopped`.
        """
        self.earlier = self._in_time(READ_SECONDS, lambda documents: self._of_job(documents).read())
        self._record(self.earlier.entries)
        repeated = self._repeated()
        if repeated is None:
            self._write(self._entry(BEGUN))
            self._settle()
            return
        with self._context.journal.best_effort(WITHOUT):
            refused = self._entry(REFUSED)
            entry = repeated.entry._replace(key=refused.key, at=refused.at, paid=0.0, useful=0.0)
            self._write(entry._replace(start=0.0, inputs=0.0, lost=0.0))
            self._settle()
        raise RepeatedFailure(repeated.why, repeated.entry.code or 1)

    def _repeated(self) -> RepeatedStart | None:
        """Returns the failure that this start would repeat; None if it may succeed."""
        # Without a platform that names the job, a person starts it again, and knows why.
        if self._options.ignore_ledger or self._job.place.job is None:
            return None
        places = self._run.checkpoints
        repeated = repeated_start(self.earlier, self._run.digest, bool(places))
        if repeated is None:
            return None
        # Another job may have published a checkpoint meanwhile, or a person removed one.
        newest = self._in_time(READ_SECONDS, lambda documents: _newest_complete(documents, places))
        return repeated if newest == repeated.entry.whole else None

    def meet(self, placement: Placement, table: RankTable | None, job: JobEnvironment) -> None:
        """Takes the servers of this start, and names the one whose hardware ended the start before."""
        self._job = job
        self._servers = servers_of(placement, table, job)
        broken = broken_server(self.earlier)
        if broken is None:
            return
        journal = self._context.journal
        here = [node for node, server in self._servers.items() if server == broken.server]
        before = Message.of("the last start ended by hardware of server {}: {}", broken.server, broken.words)
        journal.event("broken server", server=broken.server, again=bool(here), words=broken.words)
        if here:
            text = "{}; the platform gave this job the same server again, as node {}"
            journal.warn(Message.of(text, before, here[0]))
        else:
            journal.say(Message.of("{}; this start has other servers", before))

    def note(self, facts: AttemptFacts) -> None:
        """Writes the end of an attempt, while the caller goes on; errors are logged and suppressed."""
        self._attempts += 1
        for step in (self._settle, lambda: self._write(self._entry_of(facts))):
            with self._context.journal.best_effort(WITHOUT):
                step()

    def note_end(self, ending: Ending, checkpoints: NodeCheckpoints, ends: Mapping[int, AttemptEnd]) -> None:
        """Writes the end of the last attempt, which is that of the start."""
        if not exit_status(ending).code:
            outcome = SUCCEEDED
        else:
            outcome = STOPPED if ending.stopped_by is not None and ending.cause is None else FAILED
        self.note(AttemptFacts(ending.run, ending.cause, checkpoints, ends, outcome))
        with self._context.journal.best_effort(WITHOUT):
            self._settle()

    def _entry_of(self, facts: AttemptFacts) -> LedgerEntry:
        before = self._seconds_before_ranks(facts.run)
        exits = facts.run.exits if facts.run is not None else ()
        steps = [step for step in (last_step(ended.output) for ended in exits) if step is not None]
        useful, nodes = _useful_seconds(facts), self._job.node_count
        entry = self._entry(facts.outcome)._replace(
            step=max(steps, default=None),
            whole=facts.checkpoints.newest_complete(),
            rule=self.verdict.rule if self.verdict is not None else "",
            useful=round(useful * nodes, 3),
            start=round(before[0] * nodes, 3),
            inputs=round(before[1] * nodes, 3),
            lost=round((_longest(exits) - useful) * nodes, 3),
        )
        return self._with_failure(entry, facts) if facts.outcome == FAILED else entry

    def _seconds_before_ranks(self, run: RunResult | None) -> tuple[float, float]:
        """Returns the seconds from the last entry to the ranks: without inputs, and of inputs."""
        exits = run.exits if run is not None else ()
        began = min((ended.ended_ns / 1e9 - ended.seconds for ended in exits), default=time.monotonic())
        before, inputs = max(0.0, began - self._since), self._context.journal.seconds_of.pop("inputs", 0.0)
        return max(0.0, before - inputs), min(before, inputs)

    def _with_failure(self, entry: LedgerEntry, facts: AttemptFacts) -> LedgerEntry:
        """Returns the entry of a failed attempt with its cause; of hardware with the node and its defect."""
        cause, options, ends = facts.cause, self._options, self._ends(facts, entry)
        policy = RestartPolicy(retry_on=options.retry_on, no_retry_on=options.no_retry_on)
        kind = failure_kind(ends, cause, policy)
        if cause is not None:
            entry = entry._replace(
                node=cause.node, rank=cause.rank, code=cause.code, words=cause.words, place=cause.place
            )
        broken = next((node for node, end in sorted(ends.items()) if end.unhealthy), entry.node)
        if kind == HARDWARE and broken is not None:
            defect = ends[broken].unhealthy if broken in ends else ""
            server = self._servers.get(broken, "")
            entry = entry._replace(node=broken, server=server, words=defect or entry.words)
        return entry._replace(kind=kind)

    def _ends(self, facts: AttemptFacts, entry: LedgerEntry) -> Mapping[int, AttemptEnd]:
        """Returns the reports of the nodes; without restarts only that of this one, made now."""
        if facts.ends or facts.run is None:
            return facts.ends
        devices = sum(ended.rank is not None for ended in facts.run.exits)
        inbox = self._context.inbox
        defect = find_defect(self._context, devices, ()) if not inbox.stops else ""
        stepped = entry.step is not None
        return {self._job.node_rank: AttemptEnd(1, whole=entry.whole, unhealthy=defect, stepped=stepped)}

    def _entry(self, outcome: str) -> LedgerEntry:
        """Returns an entry of this start for the time since the one before."""
        now, nodes = time.monotonic(), self._job.node_count
        paid, self._since = (now - self._since) * nodes, now
        key = EntryKey(self.earlier.last_start + 1, self._identity, self._attempts, outcome)
        at = round(time.time(), 3)
        return LedgerEntry(key, self._job.name, at, nodes, digest=self._run.digest, paid=round(paid, 3))

    def _record(self, entries: Sequence[LedgerEntry]) -> None:
        """Records entries as an event: reports and pages show the starts of a job without OBS."""
        if entries:
            self._context.journal.event("ledger", entries=[entry_fields(entry) for entry in entries])

    def _write(self, entry: LedgerEntry) -> None:
        """Begins to write an entry."""
        self._record([entry])

        def write(documents: Documents) -> None:
            ledger = self._of_job(documents)
            ledger.write(entry)
            if not entry.key.attempt:
                ledger.trim()

        self._writing = self._begun(LOST_SECONDS if self._is_lost else WRITE_SECONDS, write)

    def _settle(self) -> None:
        """Waits for the newest write; raises its error, or `TimeoutError`."""
        writing, self._writing = self._writing, None
        if writing is None:
            return
        try:
            self._result_of(writing)
        except Exception:
            self._is_lost = True
            raise

    def _of_job(self, documents: Documents) -> LedgerDocuments:
        return LedgerDocuments(documents, job_directory(self._job.name))

    def _in_time(self, seconds: float, work: Callable[[Documents], Result]) -> Result:
        """Returns the result of requests to OBS; raises `TimeoutError` after `seconds`, and their errors."""
        result: Result = self._result_of(self._begun(seconds, work))
        return result

    def _begun(self, seconds: float, work: Callable[[Documents], Any]) -> Requests:
        deadline = time.monotonic() + seconds
        policy = RetryPolicy(0.0 if self._is_lost else seconds / 2, deadline)
        task = Task(
            "ledger",
            lambda cancel: work(Documents(RetriedStore(self._run.store, cancel, policy), self._run.place)),
            self._context.inbox,
        )
        return Requests(task, seconds, deadline)

    def _result_of(self, requests: Requests) -> Any:
        task, seconds, deadline = requests
        # A stop signal does not keep the end of an attempt out of the ledger.
        if not task.wait(_ignore if self._attempts else self._context.inbox.check, deadline):
            cancel_and_wait(task)
            raise TimeoutError(f"OBS has not answered within {seconds:.0f} s")
        return task.result()


def servers_of(placement: Placement, table: RankTable | None, job: JobEnvironment) -> dict[int, str]:
    """Returns the servers of the nodes, as far as they are known: by the numbers of pods in a rank table."""
    own = placement.server_id or job.place.host
    servers = {job.node_rank: own} if own else {}
    for pod in table.pods if table is not None else ():
        number = re.search(r"-(\d{1,6})$", pod.name or "")
        if number is not None and int(number[1]) < job.node_count:
            servers.setdefault(int(number[1]), pod.server_id)
    return servers


def _newest_complete(documents: Documents, places: Sequence[Place]) -> str:
    """Returns the newest steps that are complete in OBS, as `NodeCheckpoints.newest_complete` does."""
    steps = []
    for place in places:
        rows = read_checkpoints(Documents(documents.to, place))
        newest = next((row for row in rows if row.checkpoint is not None), None)
        steps += [step_text(newest.listed.name.step)] if newest is not None else []
    return " ".join(steps)


def _useful_seconds(facts: AttemptFacts) -> float:
    """Returns the seconds of an attempt until its newest complete checkpoint, or all of a success."""
    exits = facts.run.exits if facts.run is not None else ()
    longest = _longest(exits)
    saved = facts.checkpoints.saved_at()
    if facts.outcome == SUCCEEDED or not exits:
        return longest
    began = min(ended.ended_ns / 1e9 - ended.seconds for ended in exits)
    return min(max(0.0, saved - began), longest) if saved is not None else 0.0


def _longest(exits: Sequence[WorkerExit]) -> float:
    return max((ended.seconds for ended in exits), default=0.0)


def _ignore() -> None:
    """Does nothing."""
