"""Inputs and outputs of a node: `path_mapping` in threads beside the phases, its errors as boot errors."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from ma_boot.errors import (
    CannotCreate,
    InputMissing,
    InternalError,
    OutputLost,
    PhaseCancelled,
    StoreUnavailable,
    described,
    listed,
)
from ma_boot.node.transfers.mapping import NodeTransfers, inputs_of, outputs_of, upload_routes
from ma_boot.node.transfers.progress import TransferProgress, Update, record, summary
from ma_boot.node.transfers.unsent import FilesLeft
from ma_boot.processes.control_group import limit_reached, no_more_processes
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.task import Task
from ma_boot.report.hints import with_store_hint
from ma_boot.report.journal import Journal
from ma_boot.wording import Message, ProgressLine, in_lines
from path_mapping import errors as mapping_errors

if TYPE_CHECKING:
    from ma_boot.node.checkpoints.output import CheckpointOutput
    from path_mapping.mapping.routes import Route
    from path_mapping.planning.plan import Copy
    from path_mapping.planning.prepare import EmptyRoute, UploadChoice
    from path_mapping.stores.store import Store
    from path_mapping.transfer.transfer import Transferred
    from path_mapping.workers.retry import RetriedStore, RetryPolicy

# What moves files is imported where a job has files to move.

CANCEL_SECONDS = 2.0  # for a cancelled transfer to end; its thread is abandoned after that
MOST_NOTICES = 5
NOTHING_LEFT = Message.of("the training ended well, but left nothing at these output paths:")
NONE_SELECTED = Message.of("the patterns of these outputs select none of their files:")


@contextmanager
def downloading_inputs(
    transfers: NodeTransfers | None, journal: Journal, inbox: SignalInbox
) -> Iterator[Callable[[], None]]:
    """Downloads the inputs in a thread while the block runs; the block ends when they have arrived.

    It yields a check for whatever waits in the block: that raises `PhaseCancelled` once the download has
    failed, upon which the end of the block raises its `BootError`, and `Stopped` at a stop signal. If the
    block fails, the download is cancelled.
    """
    routes = inputs_of(transfers)
    if transfers is None or not routes:
        yield inbox.check
        inbox.check()
        return
    from path_mapping.transfer.transfer import download
    from path_mapping.workers.retry import RetriedStore, RetryPolicy

    store, base, part = transfers.store, transfers.base, transfers.shard
    patience = RetryPolicy(transfers.retry_seconds)

    def fetch(cancel: threading.Event) -> None:
        with journal.phase("inputs") as phase:
            try:
                with progress.shown() as update:
                    to = RetriedStore(store, cancel, patience, progress.retrying)
                    done = download(routes, base, to, update, part=part)
            except mapping_errors.PathMappingError as error:
                raise to_boot_error(error, store) from error
            phase.detail = summary(done)
            _report(done, "download", journal)

    progress = TransferProgress("inputs", "download", journal)
    task = Task("inputs", fetch, inbox)

    def check() -> None:
        inbox.check()
        try:
            task.check()
        except Exception as error:  # it is not the fault of the phase that runs beside the inputs
            raise PhaseCancelled("the inputs failed") from error

    try:
        yield check
        task.wait(inbox.check, remind=progress.say)
    except PhaseCancelled:
        task.check()
        raise
    except BaseException:
        cancel_and_wait(task)
        raise
    task.result()


def check_output_access(transfers: NodeTransfers | None, inbox: SignalInbox) -> None:
    """Checks before the training that its outputs can be uploaded (`check_outputs`).

    Takes note of the objects of shared outputs, too. Raises `StoreUnavailable` if there is no such bucket, or
    OBS refuses or does not answer; and `Stopped`.
    """
    routes = outputs_of(transfers)
    if transfers is None or not routes:
        return
    from path_mapping.transfer.left_uploads import check_outputs
    from path_mapping.workers.retry import RetriedStore, RetryPolicy

    store, seconds, shared = transfers.store, transfers.retry_seconds, transfers.shared

    def look(cancel: threading.Event) -> None:
        check_outputs(routes, store, cancel, seconds)
        if shared is not None:
            shared.note_objects(RetriedStore(store, cancel, RetryPolicy(seconds)))

    task = Task("outputs", look, inbox)
    try:
        task.wait(inbox.check)
        task.result()
    except (mapping_errors.StoreError, mapping_errors.CredentialsMissing) as error:
        raise StoreUnavailable(with_store_hint(f"outputs: {error}")) from error
    except BaseException:
        cancel_and_wait(task)
        raise


@contextmanager
def uploading_periodically(
    transfers: NodeTransfers | None,
    journal: Journal,
    inbox: SignalInbox,
    is_ordinary: Callable[[str], bool] = lambda path: True,
) -> Iterator[None]:
    """Uploads outputs that have an interval while the block runs; stops as soon as the block ends.

    `is_ordinary` returns whether the file at a path will be in no checkpoint.
    Failures of any kind are reported and retried in the next round: the last upload is the one that counts.
    """
    routes = upload_routes(transfers)
    if transfers is None or all(route.interval is None for route in routes):
        yield
        return
    from path_mapping.transfer.periodic import upload_periodically
    from path_mapping.workers.retry import RetriedStore

    store, base = transfers.store, transfers.base

    def done(moved: Transferred) -> None:
        journal.say(ProgressLine(f"outputs so far: {summary(moved)}"))
        record(journal, "upload", moved)

    def failed(error: Exception) -> None:
        expected = isinstance(error, (mapping_errors.PathMappingError, OSError))
        what = str(error) if expected else described(error)
        journal.warn(f"outputs so far: not all uploaded, the next round retries: {what}")

    def send(cancel: threading.Event) -> None:
        to = RetriedStore(store, cancel)
        target = transfers.shared.target if transfers.shared is not None else None
        upload_periodically(
            routes,
            base,
            to,
            done=done,
            failed=failed,
            wanted=lambda path, local: is_ordinary(path),
            shared=target,
        )

    task = None
    try:
        task = Task("outputs so far", send, inbox)
    except RuntimeError as error:  # the limit of threads
        journal.warn(f"outputs so far: uploaded at the end only: {described(error)}")
    try:
        yield
    finally:
        if task is not None:
            cancel_and_wait(task)


class CheckpointsFirst(NamedTuple):
    """The checkpoints of a node, which are published before its ordinary files are uploaded.

    `publish` returns what was lost; `ordinary` then makes the predicate of the files that are left.
    """

    publish: Callable[[threading.Event, RetryPolicy], Sequence[str]]
    ordinary: Callable[[], Callable[[str], bool]]


def upload_outputs(
    transfers: NodeTransfers | None,
    journal: Journal,
    inbox: SignalInbox,
    timeout: float,
    nothing: str,
    spared: int = 1,
    sets: CheckpointsFirst | None = None,
    listen: Callable[[], None] = lambda: None,
) -> OutputLost | None:
    """Uploads the outputs; nothing is raised, a loss is returned: how the training ended comes first.

    It takes at most `timeout` seconds, and a further stop signal ends it: the second one of all, as the first
    one (`spared`) is the platform's. Checkpoints (`sets`) come first; `listen` is called when peers may have
    sent messages. An output with nothing at its local path is lost, with the headline `nothing`, or only
    noted if that is empty. After a stop signal there may be little time: nothing is listed, and the newest
    and smallest files go first.
    """
    routes = upload_routes(transfers)
    if transfers is None or not routes:
        return None
    from path_mapping.workers.retry import RetriedStore, RetryPolicy

    hurry = bool(inbox.stops)
    first = sets or CheckpointsFirst(lambda cancel, patience: (), partial(ordinary_by_mapping, transfers))
    left = FilesLeft(routes, transfers.base, first.ordinary)

    def send(cancel: threading.Event) -> tuple[Transferred, Sequence[str]]:
        problems = first.publish(cancel, patience)
        with progress.shown() as update:
            to = RetriedStore(transfers.store, cancel, patience, progress.retrying)
            sent = _sent(transfers, to, update, is_ordinary=first.ordinary(), hurry=hurry, unsent=left.take)
            return sent, problems

    progress = TransferProgress("outputs", "upload", journal)
    stops, deadline = max(spared, len(inbox.stops)), time.monotonic() + timeout
    patience = RetryPolicy(transfers.retry_seconds if timeout == math.inf else math.inf, deadline)

    def check() -> None:
        listen()
        _check_stops(inbox, stops)

    try:
        with journal.phase("outputs") as phase:
            task = Task("outputs", send, inbox)
            if not task.wait(check, deadline, progress.say):
                raise _too_late(timeout, progress)
            done, problems = task.result()
            phase.detail = summary(done)
            _judge(done, problems, journal, nothing)
    except OutputLost as lost:
        was_done = task.finished
        cancel_and_wait(task)
        return lost if was_done else left.named(lost, journal)
    except Exception as error:
        message = Message.of("not every output was uploaded: {}", _explained(error))
        return left.named(OutputLost(with_store_hint(message)), journal)
    return None


def _check_stops(inbox: SignalInbox, stops: int) -> None:
    """Raises `OutputLost` if more stop signals have come."""
    if len(inbox.stops) > stops:
        raise OutputLost(Message.of("not every output was uploaded: interrupted by a second stop signal"))


def _too_late(timeout: float, progress: TransferProgress) -> OutputLost:
    late = "not every output was uploaded within {} s (--upload-timeout){}"
    return OutputLost(with_store_hint(Message.of(late, f"{timeout:.0f}", progress.last_error())))


def _sent(
    transfers: NodeTransfers,
    to: RetriedStore,
    update: Update,
    *,
    is_ordinary: Callable[[str], bool],
    hurry: bool,
    unsent: Callable[[Iterator[Copy]], None],
) -> Transferred:
    """Uploads all outputs; the shared ones are compared with the objects afterwards."""
    from path_mapping.planning.prepare import UploadChoice
    from path_mapping.transfer.transfer import upload

    def send(routes: Sequence[Route], choice: UploadChoice) -> Transferred:
        return upload(routes, transfers.base, to, update, choice=choice, unsent=unsent)

    choice = UploadChoice(listed=not hurry, hurry=hurry, wanted=lambda path, local: is_ordinary(path))
    shared, routes = transfers.shared, upload_routes(transfers)
    return send(routes, choice) if shared is None else shared.upload(send, routes, choice, to)


def _explained(error: Exception) -> Exception:
    """The error of an upload in words that need no traceback, where they are known."""
    if isinstance(error, mapping_errors.NoWorkers):
        return no_more_processes(str(error))
    if isinstance(error, (mapping_errors.PathMappingError, OSError)):
        return limit_reached(error) or error
    return limit_reached(error) or InternalError.of(error)


def ordinary_by_mapping(
    transfers: NodeTransfers | None, outputs: Sequence[CheckpointOutput] = (), has_ended: bool = True
) -> Callable[[str], bool]:
    """Returns the predicate of the files that are uploaded one by one.

    `outputs` publish checkpoints in this job; `has_ended`: its processes write no more.
    """
    routes = outputs_of(transfers)
    if transfers is None or all(route.more is None for route in routes):
        return lambda path: True
    from ma_boot.node.checkpoints.output import ordinary_files

    return ordinary_files(routes, transfers.base, outputs, has_ended)


def cancel_and_wait(task: Task[Any]) -> None:
    """Asks a task to end, and waits for that a little."""
    task.cancel()
    task.wait(lambda: None, time.monotonic() + CANCEL_SECONDS)


def _judge(done: Transferred, problems: Sequence[str], journal: Journal, loss: str) -> None:
    """Reports an upload; raises `OutputLost` for what was not sent before it, or is missing and expected."""
    _report(done, "upload", journal)
    if problems:
        raise OutputLost(with_store_hint(in_lines(problems)))
    # An output with checkpoints may be empty: the training may remove what was published.
    empty = [found for found in done.empty if found.why or found.route.more is None]
    absent = [*done.missing, *(found.route for found in empty if not found.why)]
    unselected = [found for found in empty if found.why]
    if loss:
        losses = [
            (loss, [_ends(route) for route in absent if route.required]),
            (NONE_SELECTED, [_unselected(found) for found in unselected if found.route.required]),
        ]
        lines = [listed(headline, outputs) for headline, outputs in losses if outputs]
        if lines:
            raise OutputLost(with_store_hint(in_lines(lines)))
    outputs = [*map(_ends, absent), *map(_unselected, unselected)]
    if outputs:
        journal.say(listed("nothing to upload from", outputs))


def _ends(route: Route) -> str:
    """The two ends of an output, in a message."""
    return f"{route.local} (for {route.remote})"


def _unselected(found: EmptyRoute) -> str:
    return f"{_ends(found.route)}: {found.why}"


def _report(done: Transferred, direction: str, journal: Journal) -> None:
    for notice in done.notices[:MOST_NOTICES]:
        journal.warn(notice)
    if len(done.notices) > MOST_NOTICES:
        journal.warn(f"and {len(done.notices) - MOST_NOTICES} more notices like these")
    record(journal, direction, done)


def missing_outputs(outputs: Sequence[str], headline: str = NOTHING_LEFT) -> OutputLost:
    """The loss of outputs at whose local paths there is nothing."""
    return OutputLost(with_store_hint(listed(headline, outputs)))


def _in_words(what: str, error: mapping_errors.PathMappingError) -> str:
    """The error of a transfer of `what`; where it lists problems, with a headline that has a translation."""
    headline, *problems = str(error).split("\n")
    if problems and "{}" not in headline:
        headline = Message(headline)
    return in_lines([Message.of("{}: {}", Message(what), headline), *problems])


def to_boot_error(
    error: mapping_errors.PathMappingError, store: Store | None = None, what: str = "inputs"
) -> Exception:
    """The error of a download from `store` as one with an exit code; `PhaseCancelled` for a cancelled one."""
    if isinstance(error, mapping_errors.Cancelled):
        return PhaseCancelled("cancelled")
    if isinstance(error, mapping_errors.NoWorkers):
        return no_more_processes(f"{what}: {error}")
    failed = error.failures if isinstance(error, mapping_errors.TransferFailed) else ()
    causes = [failure.error for failure in failed] or [error]
    local = (OSError, mapping_errors.UnsafeTarget, mapping_errors.NoSpace, mapping_errors.TargetRemoved)
    if any(isinstance(cause, local) for cause in causes):
        return CannotCreate(_in_words(what, error))
    if isinstance(error, mapping_errors.MissingInputs) and store is not None:
        from path_mapping.mapping.routes import ObsUrl

        def place(text: str) -> str:
            url = ObsUrl.parse(text)
            return store.place(url.bucket, url.key)

        error = error.located(place)
    message = with_store_hint(_in_words(what, error))
    absent = (mapping_errors.MissingInputs, mapping_errors.NothingSelected, mapping_errors.NotFound)
    if any(isinstance(cause, absent) for cause in causes):
        return InputMissing(message)
    return StoreUnavailable(message)
