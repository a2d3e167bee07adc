"""Inputs and outputs of a node: `path_mapping` in threads beside the phases, its errors as boot errors."""

from __future__ import annotations

import math
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional, Sequence, Tuple

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
from ma_boot.processes import SignalInbox, Task, limit_reached, no_more_processes
from ma_boot.reporting import Journal, with_store_hint
from ma_boot.transfers.mapping import NodeTransfers, inputs_of, outputs_of
from ma_boot.transfers.progress import TransferProgress, record, summary
from path_mapping import errors as mapping_errors

if TYPE_CHECKING:
    from path_mapping.mapping import Route
    from path_mapping.planning import LocalEntry
    from path_mapping.stores import Store
    from path_mapping.transfer import RetryPolicy, Transferred

# What moves files is imported where a job has files to move.

CANCEL_SECONDS = 2.0  # for a cancelled transfer to end; its thread is abandoned after that
MOST_NOTICES = 5
NOTHING_LEFT = "the training ended well, but left nothing at these output paths:"


@contextmanager
def downloading_inputs(
    transfers: Optional[NodeTransfers], journal: Journal, inbox: SignalInbox
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
    from path_mapping.transfer import RetryPolicy, download

    store, base, part = transfers.store, transfers.base, transfers.shard
    patience = RetryPolicy(transfers.retry_seconds)

    def fetch(cancel: threading.Event) -> None:
        with journal.phase("inputs") as phase:
            try:
                with progress.shown() as update:
                    done = download(
                        routes, base, store, cancel=cancel, progress=update, part=part,
                        patience=patience, troubled=progress.retrying,
                    )  # fmt: skip
            except mapping_errors.PathMappingError as error:
                raise boot_error(error, store) from error
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
        cancelled_soon(task)
        raise
    task.result()


def look_at_outputs(transfers: Optional[NodeTransfers], inbox: SignalInbox) -> None:
    """Checks before the training that its outputs can be uploaded (`check_outputs`).

    Raises `StoreUnavailable` if there is no such bucket, or OBS refuses or does not answer; and `Stopped`.
    """
    routes = outputs_of(transfers)
    if transfers is None or not routes:
        return
    from path_mapping.transfer import check_outputs

    store, seconds = transfers.store, transfers.retry_seconds
    task = Task("outputs", lambda cancel: check_outputs(routes, store, cancel, seconds), inbox)
    try:
        task.wait(inbox.check)
        task.result()
    except (mapping_errors.StoreError, mapping_errors.CredentialsMissing) as error:
        raise StoreUnavailable(with_store_hint(f"outputs: {error}")) from error
    except BaseException:
        cancelled_soon(task)
        raise


@contextmanager
def uploading_periodically(
    transfers: Optional[NodeTransfers], journal: Journal, inbox: SignalInbox
) -> Iterator[None]:
    """Uploads outputs that have an interval while the block runs; stops as soon as the block ends.

    Failures of any kind are reported and retried in the next round: the last upload is the one that counts.
    """
    routes = outputs_of(transfers)
    if transfers is None or all(route.interval is None for route in routes):
        yield
        return
    from path_mapping.transfer import upload_periodically

    store, base = transfers.store, transfers.base

    def done(moved: Transferred) -> None:
        journal.say(f"outputs so far: {summary(moved)}")
        record(journal, "upload", moved)

    def failed(error: Exception) -> None:
        expected = isinstance(error, (mapping_errors.PathMappingError, OSError))
        what = str(error) if expected else described(error)
        journal.say(f"outputs so far: not all uploaded, the next round retries: {what}")

    def send(cancel: threading.Event) -> None:
        wanted = _wanted(routes, base)
        upload_periodically(routes, base, store, cancel=cancel, done=done, failed=failed, wanted=wanted)

    task = None
    try:
        task = Task("outputs so far", send, inbox)
    except RuntimeError as error:  # the limit of threads
        journal.say(f"outputs so far: uploaded at the end only: {described(error)}")
    try:
        yield
    finally:
        if task is not None:
            cancelled_soon(task)


def upload_outputs(
    transfers: Optional[NodeTransfers],
    journal: Journal,
    inbox: SignalInbox,
    timeout: float,
    nothing: str,
    spared: int = 1,
    before: Callable[[threading.Event, RetryPolicy], Sequence[str]] = lambda cancel, patience: (),
) -> Optional[OutputLost]:
    """Uploads the outputs; nothing is raised, a loss is returned: how the training ended comes first.

    It takes at most `timeout` seconds, and a further stop signal ends it: the second one of all, as the first
    one (`spared`) is the platform's. `before` is called first, and returns what was lost. An output with
    nothing at its local path is lost, with the headline `nothing`, or only noted if that is empty. After a
    stop signal there may be little time: nothing is listed, and the newest and smallest files go first.
    """
    routes = outputs_of(transfers)
    if transfers is None or not routes:
        return None
    from path_mapping.transfer import RetryPolicy, UploadChoice, upload

    store, base, hurry = transfers.store, transfers.base, bool(inbox.stops)

    def send(cancel: threading.Event) -> Tuple[Transferred, Sequence[str]]:
        problems = before(cancel, patience)
        choice = UploadChoice(listed=not hurry, hurry=hurry, wanted=_wanted(routes, base))
        with progress.shown() as update:
            return upload(
                routes, base, store, cancel=cancel, progress=update, choice=choice,
                patience=patience, troubled=progress.retrying,
            ), problems  # fmt: skip

    progress = TransferProgress("outputs", "upload", journal)
    stops, deadline = max(spared, len(inbox.stops)), time.monotonic() + timeout
    patience = RetryPolicy(transfers.retry_seconds if timeout == math.inf else math.inf, deadline)

    def check() -> None:
        if len(inbox.stops) > stops:
            raise OutputLost("not every output was uploaded: interrupted by a second stop signal")

    try:
        with journal.phase("outputs") as phase:
            task = Task("outputs", send, inbox)
            if not task.wait(check, deadline, progress.say):
                late = f"not every output was uploaded within {timeout:.0f} s (--upload-timeout)"
                raise OutputLost(with_store_hint(f"{late}{progress.last_error()}"))
            done, problems = task.result()
            phase.detail = summary(done)
            _judge(done, problems, journal, nothing)
    except OutputLost as lost:
        cancelled_soon(task)
        return lost
    except Exception as error:
        return OutputLost(with_store_hint(f"not every output was uploaded: {_explained(error)}"))
    return None


def _explained(error: Exception) -> Exception:
    """The error of an upload in words that need no traceback, where they are known."""
    if isinstance(error, mapping_errors.NoWorkers):
        return no_more_processes(str(error))
    if isinstance(error, (mapping_errors.PathMappingError, OSError)):
        return limit_reached(error) or error
    return limit_reached(error) or InternalError.of(error)


def sent_one_by_one(routes: Sequence[Route], base: Path) -> Callable[[str], bool]:
    """Which files of these outputs are uploaded one by one: all but those of checkpoint sets."""
    if all(route.more is None for route in routes):
        return lambda path: True
    from ma_boot.checkpoints import files_of_no_set

    return files_of_no_set(routes, base)


def _wanted(routes: Sequence[Route], base: Path) -> Callable[[str, LocalEntry], bool]:
    mine = sent_one_by_one(routes, base)
    return lambda path, local: mine(path)


def cancelled_soon(task: Task[Any]) -> None:
    """Asks a task to end, and waits for that a little."""
    task.cancel()
    task.wait(lambda: None, time.monotonic() + CANCEL_SECONDS)


def _judge(done: Transferred, problems: Sequence[str], journal: Journal, loss: str) -> None:
    """Reports an upload; raises `OutputLost` for what was not sent before it, or is missing and expected."""
    _report(done, "upload", journal)
    if problems:
        raise OutputLost(with_store_hint("\n".join(problems)))
    paths = {f"{route.local} (for {route.remote})": route.required for route in done.missing}
    expected = [path for path, required in paths.items() if required]
    if loss and expected:
        raise nothing_at(expected, loss)
    if paths:
        journal.say(listed("nothing to upload from", list(paths)))


def _report(done: Transferred, direction: str, journal: Journal) -> None:
    for notice in done.notices[:MOST_NOTICES]:
        journal.say(notice)
    if len(done.notices) > MOST_NOTICES:
        journal.say(f"and {len(done.notices) - MOST_NOTICES} more notices like these")
    record(journal, direction, done)


def nothing_at(outputs: Sequence[str], headline: str = NOTHING_LEFT) -> OutputLost:
    """The loss of outputs at whose local paths there is nothing."""
    return OutputLost(with_store_hint(listed(headline, outputs)))


def boot_error(
    error: mapping_errors.PathMappingError, store: Optional[Store] = None, what: str = "inputs"
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
        return CannotCreate(f"{what}: {error}")
    if isinstance(error, mapping_errors.MissingInputs) and store is not None:
        from path_mapping.mapping import ObsUrl

        def place(text: str) -> str:
            url = ObsUrl.parse(text)
            return store.place(url.bucket, url.key)

        error = error.located(place)
    message = with_store_hint(f"{what}: {error}")
    if any(isinstance(cause, (mapping_errors.MissingInputs, mapping_errors.NotFound)) for cause in causes):
        return InputMissing(message)
    return StoreUnavailable(message)
