"""The checkpoints of a node: restored before its processes start, published while they run and at the end."""

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
    from ma_boot.node.checkpoints.attempts import Restored
    from ma_boot.node.checkpoints.output import CheckpointOutput
    from ma_boot.node.checkpoints.steps import RunEnd
    from path_mapping.workers.retry import RetryPolicy

RESTART_SHARE = 0.25  # of --upload-timeout, for which OBS may be away while what was saved is published
# before a restart, and again while it is restored

# What publishes and restores is imported where an output has checkpoints.

STEP, FROM, ALL = "MABOOT_RESTORED_STEP", "MABOOT_RESTORED_FROM", "MABOOT_RESTORED"
SPOOL = "MABOOT_CHECKPOINT_SPOOL"


class NodeCheckpoints(NamedTuple):
    """The outputs of a node that have checkpoints: none for most jobs.

    `variables` tell the training what was restored, unset if nothing was, and where to say what is complete.
    Before a restart of the processes, `publish` publishes what the dead ones had saved, for at most so many
    seconds; `again` goes on from the newest whole set. Both call a `check` while they wait, which may raise.
    `waited_in_vain` is for how many seconds OBS has been away between attempts, up to now.
    """

    outputs: tuple[CheckpointOutput, ...] = ()
    variables: Mapping[str, str | None] = {}
    publish: Callable[[float, Callable[[], None]], None] = lambda seconds, check: None
    again: Callable[[Sequence[WorkerSpec], Callable[[], None]], Sequence[WorkerSpec]] = (
        lambda workers, check: workers
    )
    waited_in_vain: Callable[[], float] = lambda: 0.0

    def whole(self) -> str:
        """The newest steps that are known to count in OBS, one for each output; empty if there is none."""
        return " ".join(filter(None, (output.last_whole[0] for output in self.outputs)))


def with_checkpoints(transfers: NodeTransfers | None) -> bool:
    """Whether this node has an output with checkpoints."""
    return any(route.more is not None for route in outputs_of(transfers))


def restored_checkpoints(
    transfers: NodeTransfers,
    placement: Placement,
    table: RankTable | None,
    job: JobEnvironment,
    timeout: float,
    upload_timeout: float,
    inbox: SignalInbox,
    journal: Journal,
) -> NodeCheckpoints:
    """Agrees with the other nodes on the newest whole set of each output, and puts it in place.

    `timeout` is the longest wait, in seconds, without news from any other node. Between two attempts, OBS
    may be away for a part of `upload_timeout`, of which the rest is for the last uploads. Raises `NodesLate`,
    `ConfigError` if this job cannot go on from the newest set, `StoreUnavailable`, `CannotCreate` if the disk
    failed, and `Stopped`.
    """
    outputs = _outputs(transfers, placement, _start(table, job), job, journal)

    patience = min(transfers.retry_seconds, upload_timeout * RESTART_SHARE)
    begun = partial(_begun, transfers, outputs, inbox=inbox, journal=journal)
    away = _Away()

    def publish(seconds: float, check: Callable[[], None]) -> None:
        began, at_most = time.monotonic(), min(seconds, upload_timeout * RESTART_SHARE)
        reached = _publish_before_restart(
            transfers, outputs, at_most, retry_seconds=patience, inbox=inbox, check=check, journal=journal
        )
        away.note(began, reached)

    def again(workers: Sequence[WorkerSpec], check: Callable[[], None]) -> Sequence[WorkerSpec]:
        began, longest = time.monotonic(), min(timeout, AGREE_SECONDS)
        try:
            restored = begun(longest, retry_seconds=patience, check=check)
        except StoreUnavailable:
            away.note(began, False)
            raise
        away.note(began, True)
        changed = _variables(outputs, restored)
        return [worker._replace(environ=applied(worker.environ, changed)) for worker in workers]

    restored = begun(timeout, retry_seconds=transfers.retry_seconds, check=inbox.check)
    return NodeCheckpoints(outputs, _variables(outputs, restored), publish, again, away.seconds)


class _Away:
    """Since when OBS has been away between attempts."""

    def __init__(self) -> None:
        self._since: float | None = None

    def note(self, began: float, reached: bool) -> None:
        """Takes note whether something that began at this time has reached OBS."""
        self._since = None if reached else began if self._since is None else self._since

    def seconds(self) -> float:
        """For how long it has been away, 0 if it is there."""
        return 0.0 if self._since is None else time.monotonic() - self._since


def _begun(
    transfers: NodeTransfers,
    outputs: Sequence[CheckpointOutput],
    timeout: float,
    retry_seconds: float,
    inbox: SignalInbox,
    check: Callable[[], None],
    journal: Journal,
) -> list[Restored]:
    """The beginning of an attempt, as a phase of its own."""
    progress = TransferProgress("checkpoints", "download", journal)

    def restore(cancel: threading.Event) -> list[Restored]:
        from path_mapping.workers.retry import RetryPolicy

        patience = RetryPolicy(retry_seconds)
        with progress.shown() as update:
            return [output.begin(cancel, update, patience, timeout) for output in outputs]

    with journal.phase("checkpoints") as phase:
        task = Task("checkpoints", restore, inbox)
        try:
            task.wait(check, remind=progress.say)
            sets = task.result()
        except mapping_errors.PathMappingError as error:
            raise to_boot_error(error, transfers.store, "checkpoints") from error
        except OSError as error:
            raise CannotCreate(f"checkpoints: {error}") from error
        except BaseException:
            cancel_and_wait(task)
            raise
        phase.detail = "; ".join(map(_text, sets))
        for output, restored in zip(outputs, sets):
            step = restored.chosen.step if restored.chosen else ""
            journal.event(
                "restored", step=step, source=_source(output, restored) or f"none in {output.place}"
            )
    return sets


def _publish_before_restart(
    transfers: NodeTransfers,
    outputs: Sequence[CheckpointOutput],
    seconds: float,
    retry_seconds: float,
    inbox: SignalInbox,
    check: Callable[[], None],
    journal: Journal,
) -> bool:
    """Publishes what is complete; what fails is said: the restart goes on from what there is. Returns whether
    nothing failed."""
    from path_mapping.workers.retry import RetryPolicy

    publish = last_sets(outputs, None, False, journal, goes_on=True)
    task = Task("publishing", lambda cancel: publish(cancel, RetryPolicy(retry_seconds)), inbox)
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
        journal.warn(problem)
    return not problems


def _outputs(
    transfers: NodeTransfers, placement: Placement, name: str, job: JobEnvironment, journal: Journal
) -> tuple[CheckpointOutput, ...]:
    from ma_boot.node.checkpoints.output import CheckpointOutput
    from ma_boot.node.checkpoints.publication import JobStart

    store = transfers.store

    def counted(step: str, files: int, bytes_sent: int, seconds: float) -> None:
        published = f"{files} files, {size(bytes_sent)}"
        journal.say(ProgressLine(f"checkpoint step {step}: published in {seconds:.1f} s: {published}"))
        journal.event("checkpoint", step=step, files=files, bytes=bytes_sent, seconds=seconds)

    start = JobStart(
        job.node_rank, job.node_count, placement.ranks, placement.world_size, job.name, name,
        transfers.take_over,
    )  # fmt: skip
    outputs: list[CheckpointOutput] = []
    for route in outputs_of(transfers):
        if route.more is not None:
            spool = outputs[0].spool if outputs else None
            outputs.append(
                CheckpointOutput(route, transfers.base, store, start, journal.warn, counted, spool)
            )
    return tuple(outputs)


def _start(table: RankTable | None, job: JobEnvironment) -> str:
    """What tells this start of the job from another job's of the same name: the names of its pods."""
    pods = [pod.name or "" for pod in table.pods] if table is not None else []
    names = sorted(pods if pods and all(pods) else job.place.hosts)
    return hashlib.sha256("\n".join([job.name, *names]).encode()).hexdigest()[:16]


def _text(restored: Restored) -> str:
    """What was restored, in words."""
    chosen = restored.chosen
    if chosen is None:
        return "no checkpoint to resume from"
    fetched = (
        f"{restored.files} files, {size(restored.size)} fetched" if restored.files else "all of it was here"
    )
    return f"resuming from step {chosen.step} of {chosen.name.attempt}: {fetched}"


def _variables(outputs: tuple[CheckpointOutput, ...], sets: list[Restored]) -> dict[str, str | None]:
    """What was restored, in all and in the first output with a step; where the training says its steps."""
    documents = [
        {
            "directory": os.path.realpath(output.route.path(output.base)),
            "step": restored.chosen.step if restored.chosen else None,
            "source": _source(output, restored) or None,
        }
        for output, restored in zip(outputs, sets)
    ]
    first = next((document for document in documents if document["step"]), documents[0])
    spool = str(outputs[0].spool)
    return {STEP: first["step"], FROM: first["source"], ALL: json.dumps(documents), SPOOL: spool}


def _source(output: CheckpointOutput, restored: Restored) -> str:
    """Where a set was restored from; empty if none was."""
    return f"{output.place}{restored.chosen.name.attempt}" if restored.chosen else ""


@contextmanager
def sending_outputs(
    transfers: NodeTransfers | None, checkpoints: NodeCheckpoints, journal: Journal, inbox: SignalInbox
) -> Iterator[None]:
    """Uploads outputs and publishes checkpoints while the block runs.

    Failures are reported; the next round or look tries again.
    """

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
                except RuntimeError as error:  # the limit of threads
                    journal.warn(f"checkpoints: published at the end only: {described(error)}")
                    break
                running.callback(cancel_and_wait, task)
        yield


class CutFiles:
    """Tells the outputs with checkpoints that a process has died: what it was writing may be half a file.

    An `Observer`. Behind a launcher only the launcher's own death is seen.
    """

    without = "a file that a dying process was writing may be taken for a whole one"

    def __init__(self, outputs: Sequence[CheckpointOutput]) -> None:
        self._outputs = outputs
        self._died = 0

    def patience(self) -> float:
        """Forever: the end of a process wakes the inbox."""
        return math.inf

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Tells the outputs of processes that have died since the last call."""
        died = sum(worker.exit is not None and not _ended_by_itself(worker.exit) for worker in workers)
        if died != self._died:
            self._died = died
            for output in self._outputs:
                output.cut()
        return ""

    def close(self) -> None:
        """The last look knows that the processes have ended."""


def sets_first(
    transfers: NodeTransfers | None,
    outputs: Sequence[CheckpointOutput],
    run: RunResult | None,
    stopped: bool,
    journal: Journal,
) -> CheckpointsFirst:
    """The last uploads, after the end of the processes: complete checkpoints, then all other files."""
    ordinary = partial(ordinary_by_mapping, transfers, outputs)
    return CheckpointsFirst(last_sets(outputs, run, stopped, journal), ordinary)


def last_sets(
    outputs: Sequence[CheckpointOutput],
    run: RunResult | None,
    stopped: bool,
    journal: Journal,
    goes_on: bool = False,
) -> Callable[[threading.Event, RetryPolicy], list[str]]:
    """Publishes the checkpoints that are complete when the processes have ended.

    `stopped`: a stop signal has come; `goes_on`: they may start again. It returns what was not published, and
    raises `Cancelled` only.
    """

    def publish(cancel: threading.Event, patience: RetryPolicy) -> list[str]:
        if not outputs:
            return []
        from ma_boot.node.checkpoints.steps import RunEnd

        ending = _ending(RunEnd, run, stopped)
        problems: list[str] = []
        for output in outputs:
            before = output.last_whole
            try:
                given_up = output.finish(cancel, patience, ending, goes_on)
            except mapping_errors.Cancelled:
                raise
            except (mapping_errors.PathMappingError, OSError) as error:
                problems.append(f"not every checkpoint was published: {error}")
                continue
            for step, why in given_up.items():
                lost = f"checkpoint step {step} was never published: {why}"
                if goes_on:  # the next attempt saves it again
                    journal.say(ProgressLine(lost))
                else:
                    journal.warn(
                        f"{lost}; its files are uploaded as ordinary files, no start resumes from them"
                    )
            _report(output, *before, journal)
        return problems

    return publish


def _ending(kinds: type[RunEnd], run: RunResult | None, stopped: bool) -> RunEnd:
    """How the processes have ended: after a stop signal, a handler of it ends with 0, or with its code."""
    if run is None:
        return kinds.CUT
    if run.succeeded and not stopped:
        return kinds.WELL
    all_did = all(map(_ended_by_itself, run.exits))
    return kinds.BY_THEMSELVES if stopped and all_did and not run.left else kinds.CUT


def _ended_by_itself(ended: WorkerExit) -> bool:
    """Whether a process has ended with 0, or as a handler of the stop signal ends it."""
    return ended.signal is None and ended.code in (0, 128 + signal.SIGTERM)


def _report(output: CheckpointOutput, before: str, age: float, journal: Journal) -> None:
    """Says what was published, and for how long the set before had been whole when the training ended."""
    published, whole = output.last_published, output.last_whole[0]
    here = f"step {published} is the last one of this node" if published else "this node has published none"
    newest = f"step {whole} the newest whole set" if whole else "no set of this start is known to be whole"
    then = f"step {before} had been whole for {duration(age)}" if before else "none had been whole yet"
    journal.say(ProgressLine(f"checkpoints: {here}, {newest}; when the training ended, {then}"))
    journal.event("checkpoints", published=published, whole=whole, before=before, age=age)
