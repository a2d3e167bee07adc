"""The checkpoints of a node: restored before its processes start, published while they run and at the end.

What publishes and restores is imported only where an output has checkpoints: it takes a tenth of a second.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import (
    TYPE_CHECKING,
    Callable,
    NamedTuple,
)

from ma_boot.errors import CannotCreate, StoreUnavailable, described
from ma_boot.node.environment.patch import applied
from ma_boot.node.launch.launch_plan import Placement, WorkerSpec
from ma_boot.node.peers.restart_protocol import AGREE_SECONDS
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.node.transfers.mapping import NodeTransfers, outputs_of
from ma_boot.node.transfers.progress import TransferProgress, cancel_and_wait
from ma_boot.node.transfers.transfer_errors import to_boot_error
from ma_boot.node.transfers.uploads import CheckpointsFirst, ordinary_by_mapping, uploading_periodically
from ma_boot.platform.modelarts.job import JobEnvironment
from ma_boot.platform.rank_table import RankTable
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.task import Task
from ma_boot.report.journal import Journal
from ma_boot.report.result import RunResult, WorkerExit
from ma_boot.wording import ProgressLine, duration, size
from path_mapping import errors as mapping_errors

if TYPE_CHECKING:
    from ma_boot.node.checkpoints.attempts import BegunAttempt
    from ma_boot.node.checkpoints.output import CheckpointOutput
    from ma_boot.node.checkpoints.steps import RunEnd
    from path_mapping.workers.retry import RetryPolicy

# Share of --upload-timeout for which a restart waits for OBS: once while saved checkpoints are published, and
# once while one is restored. The rest is for the last uploads.
RESTART_SHARE = 0.25

STEP, FROM, ALL = "MABOOT_RESTORED_STEP", "MABOOT_RESTORED_FROM", "MABOOT_RESTORED"
SPOOL = "MABOOT_CHECKPOINT_SPOOL"

Check = Callable[[], None]


class CheckpointPhase(NamedTuple):
    """The parts of a node that its checkpoints need.

    `timeout` is the longest wait, in seconds, without news from any other node. Between two attempts, OBS may
    be away for a part of `upload_timeout`.
    """

    transfers: NodeTransfers
    timeout: float
    upload_timeout: float
    inbox: SignalInbox
    journal: Journal

    @property
    def restart_seconds(self) -> float:
        """Seconds for which a restart waits for OBS, at most."""
        return self.upload_timeout * RESTART_SHARE


class NodeCheckpoints:
    """The outputs of a node that have checkpoints, none for most jobs, over all its attempts."""

    def __init__(
        self, phase: CheckpointPhase | None = None, outputs: Sequence[CheckpointOutput] = ()
    ) -> None:
        self.outputs = tuple(outputs)
        # What was restored, for the training; a variable is unset if its value is None.
        self.variables: Mapping[str, str | None] = {}
        self._phase = phase
        # Since when OBS has been away between attempts, monotonic; None if it was reached.
        self._away_since: float | None = None

    def newest_complete(self) -> str:
        """Returns the newest steps known to be complete in OBS, one for each output; empty for none."""
        newest = (output.publisher.newest_complete for output in self.outputs)
        return " ".join(complete.step for complete in newest if complete is not None)

    def saved_at(self) -> float | None:
        """Returns since when the newest complete steps are known, on the monotonic clock; None for none."""
        newest = (output.publisher.newest_complete for output in self.outputs)
        return max((complete.since for complete in newest if complete is not None), default=None)

    def seconds_away(self) -> float:
        """Returns for how many seconds OBS has been away between attempts, 0 if it was reached."""
        return 0.0 if self._away_since is None else time.monotonic() - self._away_since

    def restore(self) -> None:
        """Agrees with the other nodes on the newest complete checkpoints, and puts them in place.

        Raises `NodesLate`, `ConfigError` if this job cannot resume from the newest checkpoint,
        `StoreUnavailable`, `CannotCreate` if the disk failed, and `Stopped`.
        """
        if self._phase is not None:
            phase = self._phase
            self._begin(phase, phase.timeout, phase.transfers.retry_seconds, phase.inbox.check)

    def restore_again(self, workers: Sequence[WorkerSpec], check: Check) -> Sequence[WorkerSpec]:
        """Restores for the next attempt; returns the processes with its variables. `check` may raise."""
        phase, began = self._phase, time.monotonic()
        if phase is None:
            return workers
        try:
            self._begin(phase, min(phase.timeout, AGREE_SECONDS), self._patience(phase), check)
        except StoreUnavailable:
            self._note_away(began, False)
            raise
        self._note_away(began, True)
        return [worker._replace(environ=applied(worker.environ, self.variables)) for worker in workers]

    def publish_saved(self, seconds: float, check: Check) -> None:
        """Publishes, before a restart, what the dead processes had saved; errors are logged and suppressed.

        It takes `seconds` at most. `check` is called during the wait, and may raise.
        """
        phase, began = self._phase, time.monotonic()
        if phase is None:
            return
        from path_mapping.workers.retry import RetryPolicy

        seconds = min(seconds, phase.restart_seconds)
        publish = publish_last(self.outputs, None, False, phase.journal, goes_on=True)
        policy = RetryPolicy(self._patience(phase))
        task = Task("publishing", lambda cancel: publish(cancel, policy), phase.inbox)
        try:
            in_time = task.wait(check, time.monotonic() + seconds)
        except BaseException:
            cancel_and_wait(task)
            raise
        if not in_time:
            cancel_and_wait(task)
        late = f"not every checkpoint was published in {seconds:.0f} s"
        problems = task.result() if in_time else [late]
        for problem in problems:
            phase.journal.warn(problem)
        self._note_away(began, not problems)

    def _patience(self, phase: CheckpointPhase) -> float:
        return min(phase.transfers.retry_seconds, phase.restart_seconds)

    def _note_away(self, began: float, is_reached: bool) -> None:
        """Notes whether OBS was reached by what began at this time."""
        if is_reached:
            self._away_since = None
        elif self._away_since is None:
            self._away_since = began

    def _begin(self, phase: CheckpointPhase, timeout: float, retry_seconds: float, check: Check) -> None:
        """Begins an attempt, as a phase of the journal."""
        journal = phase.journal
        progress = TransferProgress("checkpoints", "download", journal)

        def begin(cancel: threading.Event) -> list[BegunAttempt]:
            from path_mapping.workers.retry import RetryPolicy

            patience = RetryPolicy(retry_seconds)
            with progress.shown() as update:
                return [output.begin(cancel, update, patience, timeout) for output in self.outputs]

        with journal.phase("checkpoints") as journal_phase:
            task = Task("checkpoints", begin, phase.inbox)
            try:
                task.wait(check, remind=progress.say)
                begun = task.result()
            except mapping_errors.PathMappingError as error:
                raise to_boot_error(error, phase.transfers.store, "checkpoints") from error
            except OSError as error:
                raise CannotCreate(f"checkpoints: {error}") from error
            except BaseException:
                cancel_and_wait(task)
                raise
            journal_phase.detail = "; ".join(map(_summary, begun))
            for output, attempt in zip(self.outputs, begun):
                step = attempt.checkpoint.step if attempt.checkpoint else ""
                source = _source(output, attempt) or f"none in {output.target.place}"
                journal.event("restored", step=step, source=source)
        self.variables = _variables(self.outputs, begun)


def has_checkpoints(transfers: NodeTransfers | None) -> bool:
    """Returns whether this node has an output with checkpoints."""
    return any(route.more is not None for route in outputs_of(transfers))


def open_checkpoints(
    phase: CheckpointPhase, placement: Placement, table: RankTable | None, job: JobEnvironment
) -> NodeCheckpoints:
    """Returns the outputs with checkpoints; nothing is restored yet."""
    from ma_boot.node.checkpoints.checkpoint_route import CheckpointRoute
    from ma_boot.node.checkpoints.options import options_of
    from ma_boot.node.checkpoints.output import CheckpointOutput
    from ma_boot.node.checkpoints.records.job_member import JobMember

    transfers, journal = phase.transfers, phase.journal

    def report(step: str, files: int, bytes_sent: int, seconds: float) -> None:
        published = f"{files} files, {size(bytes_sent)}"
        journal.say(ProgressLine(f"checkpoint step {step}: published in {seconds:.1f} s: {published}"))
        journal.event("checkpoint", step=step, files=files, bytes=bytes_sent, seconds=seconds)

    member = JobMember(
        job.node_rank,
        job.node_count,
        ranks=placement.ranks,
        world_size=placement.world_size,
        job=job.name,
        start=_identify_start(table, job),
    )
    outputs: list[CheckpointOutput] = []
    for route in outputs_of(transfers):
        options = options_of(route)
        if options is None:
            continue
        target = CheckpointRoute(
            route=route,
            options=options,
            base=transfers.base,
            store=transfers.store,
            member=member,
            say=journal.warn,
            report=report,
            take_over=transfers.take_over,
        )
        outputs.append(CheckpointOutput(target, outputs[0].spool if outputs else None))
    return NodeCheckpoints(phase, outputs)


def _identify_start(table: RankTable | None, job: JobEnvironment) -> str:
    """Returns an identity of this start of the job: the names of its pods are new with each start."""
    pods = [pod.name or "" for pod in table.pods] if table is not None else []
    names = sorted(pods if pods and all(pods) else job.place.hosts)
    return hashlib.sha256("\n".join([job.name, *names]).encode()).hexdigest()[:16]


def _summary(begun: BegunAttempt) -> str:
    """Returns a phrase for what was restored."""
    checkpoint = begun.checkpoint
    if checkpoint is None:
        return "no checkpoint to resume from"
    downloaded = (
        f"{begun.files} files, {size(begun.size)} downloaded" if begun.files else "all of it was here"
    )
    return f"resuming from step {checkpoint.step} of {checkpoint.name.attempt}: {downloaded}"


def _variables(outputs: Sequence[CheckpointOutput], begun: Sequence[BegunAttempt]) -> dict[str, str | None]:
    """Returns the variables for the training: the restored steps, and the spool for its calls."""
    documents = [
        {
            "directory": os.path.realpath(output.target.root),
            "step": attempt.checkpoint.step if attempt.checkpoint else None,
            "source": _source(output, attempt) or None,
        }
        for output, attempt in zip(outputs, begun)
    ]
    first = next((document for document in documents if document["step"]), documents[0])
    spool = str(outputs[0].spool)
    return {STEP: first["step"], FROM: first["source"], ALL: json.dumps(documents), SPOOL: spool}


def _source(output: CheckpointOutput, begun: BegunAttempt) -> str:
    """Returns the URL from which a checkpoint was restored; empty if none was."""
    return f"{output.target.place}{begun.checkpoint.name.attempt}" if begun.checkpoint else ""


@contextmanager
def sending_outputs(
    transfers: NodeTransfers | None, checkpoints: NodeCheckpoints, journal: Journal, inbox: SignalInbox
) -> Iterator[None]:
    """Uploads outputs and publishes checkpoints while the block runs; retries after failures."""

    def failed(error: Exception) -> None:
        expected = isinstance(error, (mapping_errors.PathMappingError, OSError))
        what = str(error) if expected else described(error)
        journal.warn(f"checkpoints: not published, the next look tries again: {what}")

    ordinary = ordinary_by_mapping(transfers, checkpoints.outputs, has_ended=False)
    with uploading_periodically(transfers, journal, inbox, ordinary), ExitStack() as running:
        for output in checkpoints.outputs:
            for run in (output.watch, output.publish):
                try:
                    task = Task("publishing", partial(run, failed=failed), inbox)
                # The container has a limit of threads.
                except RuntimeError as error:
                    journal.warn(f"checkpoints: published at the end only: {described(error)}")
                    break
                running.callback(cancel_and_wait, task)
        yield


class CutFiles:
    """Notifies the outputs with checkpoints of the death of a process: its files may be incomplete.

    An `Observer`. Behind a launcher only the launcher's own death is seen.
    """

    without = "a file that a dying process was writing may be taken for a complete one"

    def __init__(self, outputs: Sequence[CheckpointOutput]) -> None:
        self._outputs = outputs
        self._died = 0

    def patience(self) -> float:
        """Returns infinity: the end of a process wakes the inbox."""
        return math.inf

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Notifies the outputs of processes that have died since the last call."""
        died = sum(worker.exit is not None and not _ended_by_itself(worker.exit) for worker in workers)
        if died != self._died:
            self._died = died
            for output in self._outputs:
                output.publisher.watch.cut()
        return ""

    def close(self) -> None:
        """Does nothing: `publish_last` is given the end of the processes."""


def checkpoints_first(
    transfers: NodeTransfers | None,
    outputs: Sequence[CheckpointOutput],
    run: RunResult | None,
    stopped: bool,
    journal: Journal,
) -> CheckpointsFirst:
    """Returns the uploads after the end of the processes: complete checkpoints, then other files."""
    ordinary = partial(ordinary_by_mapping, transfers, outputs)
    return CheckpointsFirst(publish_last(outputs, run, stopped, journal), ordinary)


def publish_last(
    outputs: Sequence[CheckpointOutput],
    run: RunResult | None,
    stopped: bool,
    journal: Journal,
    goes_on: bool = False,
) -> Callable[[threading.Event, RetryPolicy], list[str]]:
    """Returns a function that publishes the checkpoints that are complete when the processes have ended.

    `stopped`: a stop signal has come; `goes_on`: they may start again. The function returns what was not
    published, and raises `Cancelled` only.
    """

    def publish(cancel: threading.Event, patience: RetryPolicy) -> list[str]:
        if not outputs:
            return []
        from ma_boot.node.checkpoints.steps import RunEnd

        ending = _ending(RunEnd, run, stopped)
        problems: list[str] = []
        for output in outputs:
            before = output.publisher.newest_complete
            age = 0.0 if before is None else time.monotonic() - before.since
            try:
                given_up = output.finish(cancel, patience, ending, goes_on)
            except mapping_errors.Cancelled:
                raise
            except (mapping_errors.PathMappingError, OSError) as error:
                problems.append(f"not every checkpoint was published: {error}")
                continue
            for step, why in given_up.items():
                lost = f"checkpoint step {step} was never published: {why}"
                # The next attempt saves the step again.
                if goes_on:
                    journal.say(ProgressLine(lost))
                else:
                    journal.warn(
                        f"{lost}; its files are uploaded as ordinary files, no start resumes from them"
                    )
            _report(output, before.step if before else "", age, journal)
        return problems

    return publish


def _ending(kinds: type[RunEnd], run: RunResult | None, stopped: bool) -> RunEnd:
    """Returns how the processes have ended; a handler of the stop signal ends with 0, or with its code."""
    if run is None:
        return kinds.CUT
    if run.succeeded and not stopped:
        return kinds.WELL
    all_did = all(map(_ended_by_itself, run.exits))
    return kinds.BY_THEMSELVES if stopped and all_did and not run.left else kinds.CUT


def _ended_by_itself(ended: WorkerExit) -> bool:
    """Returns whether a process has ended with 0, or as a handler of the stop signal ends it."""
    return ended.signal is None and ended.code in (0, 128 + signal.SIGTERM)


def _report(output: CheckpointOutput, before: str, age: float, journal: Journal) -> None:
    """Reports the last checkpoints, and the age of the newest complete one when the training ended."""
    published, complete = output.publisher.last_published, output.publisher.newest_complete
    newest_step = complete.step if complete is not None else ""
    here = f"step {published} is the last one of this node" if published else "this node has published none"
    newest = (
        f"step {newest_step} the newest complete one" if newest_step else "none of this start is complete"
    )
    then = f"step {before} had been complete for {duration(age)}" if before else "none was complete yet"
    journal.say(ProgressLine(f"checkpoints: {here}, {newest}; when the training ended, {then}"))
    journal.event("checkpoints", published=published, whole=newest_step, before=before, age=age)
