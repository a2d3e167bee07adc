"""Inputs and outputs of a node: `path_mapping` in a thread, its errors as ours."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional, Sequence

from ma_boot.errors import (
    BootError,
    CannotCreate,
    ConfigError,
    InputMissing,
    OutputLost,
    PhaseCancelled,
    StoreUnavailable,
    listed,
)
from ma_boot.modelarts import JobEnvironment
from ma_boot.node.transfer_progress import TransferProgress, note, summary
from ma_boot.processes import SignalInbox, Task
from ma_boot.reporting import Journal, with_store_hint
from path_mapping import errors as mapping_errors
from path_mapping.mapping import PathMapping, Route, Shard, read_mapping
from path_mapping.planning import UploadChoice
from path_mapping.stores import Store, open_store
from path_mapping.transfer import Transferred, download, upload, upload_periodically

CANCEL_SECONDS = 2.0
MOST_NOTICES = 5
NO_MAPPING = PathMapping((), ())


def load_mapping(file: Optional[str], places: Mapping[str, str]) -> PathMapping:
    """The job's mapping, empty where none is named; raises `ConfigError` with all its mistakes.

    `places` are the values of its placeholders.
    """
    if file is None:
        return NO_MAPPING
    try:
        return read_mapping(Path(file), places)
    except mapping_errors.MappingInvalid as error:
        raise ConfigError(str(error)) from error


def store_of(environ: Mapping[str, str], cwd: str, obs_root: Optional[str], stall_timeout: float) -> Store:
    """OBS by the environment, or the directory `obs_root`; raises `ConfigError` with all that is missing."""
    root = Path(cwd, obs_root) if obs_root else None
    try:
        return open_store(environ, root, stall_timeout=stall_timeout)
    except mapping_errors.PathMappingError as error:
        raise ConfigError(with_store_hint(str(error))) from error


def places_of(job: JobEnvironment) -> Mapping[str, str]:
    """The values of a mapping's placeholders on this node.

    Files are moved once for a node, so `{rank}` is the node's first rank, by counting: the inputs come before
    the rank table does.
    """
    return {
        "job": job.name,
        "node": str(job.node_rank),
        "rank": str(job.node_rank * (job.device_count or 1)),
    }


def part_of(job: JobEnvironment) -> Shard:
    """This node's part of the inputs that are shared out."""
    return Shard(job.node_rank, job.node_count)


@contextmanager
def inputs_arriving(
    routes: Sequence[Route],
    base: Path,
    store: Optional[Store],
    journal: Journal,
    inbox: SignalInbox,
    part: Shard,
) -> Iterator[Task[None]]:
    """Downloads the inputs in a thread while the block runs; the block ends when they are there.

    `part` is this node's, of the inputs that are shared out. Raises what went wrong with them, or `Stopped`.
    When the block fails, the download is given up.
    """

    def fetch(cancel: threading.Event) -> None:
        if store is None or not routes:
            return
        with journal.phase("inputs") as phase:
            try:
                with progress.shown() as update:
                    done = download(routes, base, store, cancel=cancel, progress=update, part=part)
            except mapping_errors.PathMappingError as error:
                raise as_ours(error) from error
            phase.detail = summary(done)
            _say_notices(done, journal)
            note(journal, "download", done)

    progress = TransferProgress("inputs", "download", journal)
    task = Task("inputs", fetch, inbox)
    try:
        yield task
        task.wait(inbox.check, remind=progress.say)
    except BaseException:
        _give_up(task)
        raise
    task.result()


@contextmanager
def outputs_leaving(
    routes: Sequence[Route], base: Path, store: Optional[Store], journal: Journal, inbox: SignalInbox
) -> Iterator[None]:
    """Uploads outputs that have an interval while the block runs; it stops at once when the block ends.

    What goes wrong is said and tried again: the last upload is the one that counts.
    """
    if store is None or all(route.interval is None for route in routes):
        yield
        return

    def done(moved: Transferred) -> None:
        journal.say(f"outputs so far: {summary(moved)}")
        note(journal, "upload", moved)

    def failed(error: Exception) -> None:
        journal.say(f"outputs so far: not all uploaded, the next round tries again: {error}")

    def leave(cancel: threading.Event) -> None:
        upload_periodically(routes, base, store, cancel=cancel, done=done, failed=failed)

    task = Task("outputs so far", leave, inbox)
    try:
        yield
    finally:
        _give_up(task)


def bring_home(
    routes: Sequence[Route],
    base: Path,
    store: Optional[Store],
    journal: Journal,
    inbox: SignalInbox,
    timeout: float,
    all_expected: bool,
) -> Optional[OutputLost]:
    """Uploads the outputs; what is lost is returned, never raised: the training's own end comes first.

    It takes at most `timeout` seconds, and a further stop signal ends it. `all_expected`: an output with
    nothing at its local path counts as lost (on a node that holds rank 0, after a training that ended well).
    After a stop signal there may be little time: nothing is listed, and the newest and smallest go first.
    """
    if store is None or not routes:
        return None

    def send(cancel: threading.Event) -> Transferred:
        with progress.shown() as update:
            return upload(routes, base, store, cancel=cancel, progress=update, choice=choice)

    choice = UploadChoice(listed=not inbox.stops, hurry=bool(inbox.stops))
    progress = TransferProgress("outputs", "upload", journal)
    patience = max(1, len(inbox.stops))

    def check() -> None:
        if len(inbox.stops) > patience:
            raise OutputLost("not every output was uploaded: a second stop signal came; the rest stays here")

    task = Task("outputs", send, inbox)
    try:
        with journal.phase("outputs") as phase:
            if not task.wait(check, time.monotonic() + timeout, progress.say):
                raise OutputLost(f"not every output was uploaded: {timeout:.0f} s were not enough")
            done = task.result()
            phase.detail = summary(done)
            _say_notices(done, journal)
            note(journal, "upload", done)
            _judge_missing(done.missing, journal, all_expected)
    except OutputLost as lost:
        _give_up(task)
        return lost
    except (mapping_errors.PathMappingError, OSError) as error:
        return OutputLost(with_store_hint(f"not every output was uploaded: {error}"))
    return None


def _give_up(task: Task[Any]) -> None:
    task.cancel()
    task.wait(lambda: None, time.monotonic() + CANCEL_SECONDS)


def _judge_missing(missing: Sequence[Route], journal: Journal, all_expected: bool) -> None:
    if not missing:
        return
    expected = [f"{route.local} (for {route.remote})" for route in missing if route.required]
    if all_expected and expected:
        lost = listed("the training ended well, but left nothing at these output paths:", expected)
        raise OutputLost(with_store_hint(lost))
    paths = [f"{route.local} (for {route.remote})" for route in missing]
    journal.say(listed("nothing to upload from", paths))


def _say_notices(done: Transferred, journal: Journal) -> None:
    for notice in done.notices[:MOST_NOTICES]:
        journal.say(notice)
    if len(done.notices) > MOST_NOTICES:
        journal.say(f"and {len(done.notices) - MOST_NOTICES} more of the kind")


def as_ours(error: mapping_errors.PathMappingError) -> Exception:
    """The error of a download as one that carries its exit code."""
    if isinstance(error, mapping_errors.Cancelled):
        return PhaseCancelled("given up")
    if isinstance(error, mapping_errors.TransferFailed):
        return _by_cause(error, [failure.error for failure in error.failures])
    return _by_cause(error, [error])


def _by_cause(error: mapping_errors.PathMappingError, causes: Sequence[Exception]) -> BootError:
    ours = (OSError, mapping_errors.UnsafeTarget, mapping_errors.NoSpace)
    if any(isinstance(cause, ours) for cause in causes):
        return CannotCreate(f"inputs: {error}")
    message = with_store_hint(f"inputs: {error}")
    if any(isinstance(cause, (mapping_errors.MissingInputs, mapping_errors.NotFound)) for cause in causes):
        return InputMissing(message)
    return StoreUnavailable(message)
