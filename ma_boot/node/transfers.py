"""Inputs and outputs of a node: `path_mapping` in threads beside the phases, its errors as boot errors."""

from __future__ import annotations

import math
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

from ma_boot.environment import find_file
from ma_boot.errors import (
    CannotCreate,
    CommandNotFound,
    ConfigError,
    InputMissing,
    InternalError,
    OutputLost,
    PhaseCancelled,
    StoreUnavailable,
    described,
    listed,
)
from ma_boot.modelarts import JobEnvironment
from ma_boot.node.transfer_progress import TransferProgress, record, summary
from ma_boot.processes import SignalInbox, Task
from ma_boot.reporting import Journal, with_store_hint
from path_mapping import errors as mapping_errors
from path_mapping.mapping import PathMapping, Route, Shard, read_mapping
from path_mapping.planning import UploadChoice
from path_mapping.stores import STALL_SECONDS, Store, open_store
from path_mapping.transfer import (
    RetryPolicy,
    Transferred,
    check_outputs,
    download,
    upload,
    upload_periodically,
)  # fmt: skip

CANCEL_SECONDS = 2.0  # for a cancelled transfer to end; its thread is abandoned after that
MOST_NOTICES = 5
RETRY_SECONDS = 600.0  # for which a request that fails is retried, if no upload has to end earlier


@dataclass(frozen=True)
class TransferOptions:
    """The options for inputs and outputs; times in seconds."""

    path_mapping: Optional[str] = None
    obs_root: Optional[str] = None
    upload_timeout: float = 600.0
    stall_timeout: float = STALL_SECONDS
    download_timeout: float = RETRY_SECONDS


@dataclass(frozen=True)
class NodeTransfers:
    """What this node moves, from and to which store; `store` is None if the mapping is empty.

    Relative local paths are relative to `base`; `shard` is this node's share of sharded inputs. A request
    that fails is retried for `retry_seconds`.
    """

    mapping: PathMapping
    store: Optional[Store]
    base: Path
    shard: Shard
    retry_seconds: float = RETRY_SECONDS


NO_TRANSFERS = NodeTransfers(PathMapping((), ()), None, Path(), Shard())


def job_transfers(
    options: TransferOptions, environ: Mapping[str, str], cwd: str, job: JobEnvironment
) -> NodeTransfers:
    """Reads the mapping and opens its store; raises `ConfigError` for anything wrong or missing."""
    mapping = job_mapping(options.path_mapping, cwd, job)
    if not mapping.inputs and not mapping.outputs:
        return NO_TRANSFERS
    store = configured_store(options, environ, cwd)
    shard = Shard(job.node_rank, job.node_count)
    return NodeTransfers(mapping, store, Path(cwd), shard, options.download_timeout)


def job_mapping(name: Optional[str], cwd: str, job: JobEnvironment) -> PathMapping:
    """The job's path mapping, empty without a name; its file is looked up like the training script.

    Raises `ConfigError` with all its mistakes.
    """
    if name is None:
        return NO_TRANSFERS.mapping
    try:
        return load_mapping(find_file(name, cwd, job.job_dir), job)
    except CommandNotFound as error:
        raise ConfigError(f"--path-mapping {error}") from error


def shared_outputs(transfers: NodeTransfers, options: TransferOptions, cwd: str, job: JobEnvironment) -> str:
    """A warning if all nodes of a job of several upload an output to the same URL; empty otherwise.

    Which files the nodes will write is not known yet: often only rank 0 writes, so it is no error.
    """
    if job.node_count < 2 or not transfers.mapping.outputs:
        return ""
    other = job_mapping(options.path_mapping, cwd, replace(job, node_rank=job.node_rank + 1))
    pairs = zip(transfers.mapping.outputs, other.outputs)
    shared = [f"{mine.local} -> {mine.remote}" for mine, theirs in pairs if mine.remote == theirs.remote]
    if not shared:
        return ""
    return listed(
        f"warning: all {job.node_count} nodes upload these outputs to the same URL, and of files with "
        "the same name the last one uploaded wins; {node} in the URL keeps them apart:",
        shared,
    )


def load_mapping(file: str, job: JobEnvironment) -> PathMapping:
    """The path mapping in a file, with this node's values of the placeholders.

    Files are transferred once per node, so `{rank}` is the node's first rank, by counting: the inputs come
    before the rank table does. Raises `ConfigError` with all its mistakes.
    """
    first_rank = job.node_rank * (job.device_count or 1)
    values = {"job": job.name, "node": str(job.node_rank), "rank": str(first_rank)}
    try:
        return read_mapping(Path(file), values)
    except mapping_errors.MappingInvalid as error:
        raise ConfigError(str(error)) from error


def configured_store(options: TransferOptions, environ: Mapping[str, str], cwd: str) -> Store:
    """OBS as the environment configures it, or the directory `--obs-root`.

    Raises `ConfigError` with all that is missing.
    """
    root = Path(cwd, options.obs_root) if options.obs_root else None
    try:
        return open_store(environ, root, stall_timeout=options.stall_timeout)
    except mapping_errors.PathMappingError as error:
        raise ConfigError(with_store_hint(str(error))) from error


@contextmanager
def downloading_inputs(
    transfers: NodeTransfers, journal: Journal, inbox: SignalInbox
) -> Iterator[Callable[[], None]]:
    """Downloads the inputs in a thread while the block runs; the block ends when they have arrived.

    It yields a check for whatever waits in the block: that raises a `BootError` once the download has failed
    and `Stopped` at a stop signal, as the end of the block does. If the block fails, the download is
    cancelled.
    """
    routes, store = transfers.mapping.inputs, transfers.store

    if store is None or not routes:
        yield inbox.check
        inbox.check()
        return

    def fetch(cancel: threading.Event) -> None:
        with journal.phase("inputs") as phase:
            try:
                with progress.shown() as update:
                    done = download(
                        routes, transfers.base, store, cancel=cancel, progress=update, part=transfers.shard,
                        patience=RetryPolicy(transfers.retry_seconds), troubled=progress.retrying,
                    )  # fmt: skip
            except mapping_errors.PathMappingError as error:
                raise boot_error(error) from error
            phase.detail = summary(done)
            _report(done, "download", journal)

    progress = TransferProgress("inputs", "download", journal)
    task = Task("inputs", fetch, inbox)

    def check() -> None:
        inbox.check()
        task.check()

    try:
        yield check
        task.wait(inbox.check, remind=progress.say)
    except BaseException:
        _cancel(task)
        raise
    task.result()


def look_at_outputs(transfers: NodeTransfers, inbox: SignalInbox) -> None:
    """Checks before the training that its outputs can be uploaded (`check_outputs`).

    Raises `StoreUnavailable` if there is no such bucket, or OBS refuses or does not answer; and `Stopped`.
    """
    routes, store = transfers.mapping.outputs, transfers.store
    if store is None or not routes:
        return
    seconds = transfers.retry_seconds
    task = Task("outputs", lambda cancel: check_outputs(routes, store, cancel, seconds), inbox)
    try:
        task.wait(inbox.check)
        task.result()
    except (mapping_errors.StoreError, mapping_errors.CredentialsMissing) as error:
        raise StoreUnavailable(with_store_hint(f"outputs: {error}")) from error
    except BaseException:
        _cancel(task)
        raise


@contextmanager
def uploading_periodically(transfers: NodeTransfers, journal: Journal, inbox: SignalInbox) -> Iterator[None]:
    """Uploads outputs that have an interval while the block runs; stops as soon as the block ends.

    Failures are reported and retried in the next round: the last upload is the one that counts. What nobody
    expected is reported, too, and ends the rounds, never the block.
    """
    routes, store = transfers.mapping.outputs, transfers.store
    if store is None or all(route.interval is None for route in routes):
        yield
        return

    def done(moved: Transferred) -> None:
        journal.say(f"outputs so far: {summary(moved)}")
        record(journal, "upload", moved)

    def failed(error: Exception) -> None:
        journal.say(f"outputs so far: not all uploaded, the next round retries: {error}")

    def send(cancel: threading.Event) -> None:
        try:
            upload_periodically(routes, transfers.base, store, cancel=cancel, done=done, failed=failed)
        except Exception as error:
            given_up(error)

    def given_up(error: Exception) -> None:
        journal.say(f"outputs so far: uploaded at the end only: {described(error)}")

    task = None
    try:
        task = Task("outputs so far", send, inbox)
    except RuntimeError as error:  # the limit of threads
        given_up(error)
    try:
        yield
    finally:
        if task is not None:
            _cancel(task)


def upload_outputs(
    transfers: NodeTransfers,
    journal: Journal,
    inbox: SignalInbox,
    timeout: float,
    all_expected: bool,
    spared: int = 1,
) -> Optional[OutputLost]:
    """Uploads the outputs; nothing is raised, a loss is returned: how the training ended comes first.

    It takes at most `timeout` seconds, and a further stop signal ends it: the second one of all, as the first
    one (`spared`) is the platform's, which leaves time for the upload. `all_expected`: an output with
    nothing at its local path counts as lost (on the node that has rank 0, after a successful training).
    After a stop signal there may be little time: nothing is listed, and the newest and smallest files go
    first.
    """
    routes, store = transfers.mapping.outputs, transfers.store
    if store is None or not routes:
        return None

    def send(cancel: threading.Event) -> Transferred:
        with progress.shown() as update:
            return upload(
                routes, transfers.base, store, cancel=cancel, progress=update, choice=choice,
                patience=patience, troubled=progress.retrying,
            )  # fmt: skip

    choice = UploadChoice(listed=not inbox.stops, hurry=bool(inbox.stops))
    progress = TransferProgress("outputs", "upload", journal)
    stops = max(spared, len(inbox.stops))
    deadline = time.monotonic() + timeout
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
            done = task.result()
            phase.detail = summary(done)
            _report(done, "upload", journal)
            _judge_missing(done.missing, journal, all_expected)
    except OutputLost as lost:
        _cancel(task)
        return lost
    except (mapping_errors.PathMappingError, OSError) as error:
        return OutputLost(with_store_hint(f"not every output was uploaded: {error}"))
    except Exception as error:
        return OutputLost(f"not every output was uploaded: {InternalError.of(error)}")
    return None


def _cancel(task: Task[Any]) -> None:
    task.cancel()
    task.wait(lambda: None, time.monotonic() + CANCEL_SECONDS)


def _judge_missing(missing: Sequence[Route], journal: Journal, all_expected: bool) -> None:
    paths = {f"{route.local} (for {route.remote})": route.required for route in missing}
    expected = [path for path, required in paths.items() if required]
    if all_expected and expected:
        raise nothing_left_at(expected)
    if paths:
        journal.say(listed("nothing to upload from", list(paths)))


def nothing_left_at(outputs: Sequence[str]) -> OutputLost:
    """The loss of outputs to which a training that ended well wrote nothing."""
    lost = listed("the training ended well, but left nothing at these output paths:", outputs)
    return OutputLost(with_store_hint(lost))


def _report(done: Transferred, direction: str, journal: Journal) -> None:
    for notice in done.notices[:MOST_NOTICES]:
        journal.say(notice)
    if len(done.notices) > MOST_NOTICES:
        journal.say(f"and {len(done.notices) - MOST_NOTICES} more notices like these")
    record(journal, direction, done)


def boot_error(error: mapping_errors.PathMappingError) -> Exception:
    """The error of a download as one with an exit code; `PhaseCancelled` for a cancelled one."""
    if isinstance(error, mapping_errors.Cancelled):
        return PhaseCancelled("cancelled")
    failed = error.failures if isinstance(error, mapping_errors.TransferFailed) else ()
    causes = [failure.error for failure in failed] or [error]
    local = (OSError, mapping_errors.UnsafeTarget, mapping_errors.NoSpace, mapping_errors.TargetRemoved)
    if any(isinstance(cause, local) for cause in causes):
        return CannotCreate(f"inputs: {error}")
    message = with_store_hint(f"inputs: {error}")
    if any(isinstance(cause, (mapping_errors.MissingInputs, mapping_errors.NotFound)) for cause in causes):
        return InputMissing(message)
    return StoreUnavailable(message)
