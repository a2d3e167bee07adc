"""Moves chosen files by the engine of the transfers: without a plan, whatever is there."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Callable, Iterable, List, NamedTuple

from path_mapping.mapping import ObsUrl, Route
from path_mapping.planning import Copy
from path_mapping.stores import ObjectState, Store
from path_mapping.transfer.download_jobs import LargeDownload, SmallDownload, ranges_of
from path_mapping.transfer.jobs import Job, LargeUpload, SmallUpload
from path_mapping.transfer.left_uploads import abort_left, unfinished_uploads
from path_mapping.transfer.scheduler import Progress, Work, move_files
from path_mapping.workers import RetriedStore, RetryPolicy, Troubled, ignore_retry


class FailedCopy(NamedTuple):
    """A file that was not moved, and why."""

    copy: Copy
    error: Exception


class Moved(NamedTuple):
    """The files that were moved, in the state in which they were sent, and those that were not."""

    done: List[Copy]
    failed: List[FailedCopy]


def ignored(progress: Progress) -> None:
    """For those who do not want to know the progress."""


def fetch_files(
    copies: Iterable[Copy],
    store: Store,
    cancel: threading.Event,
    progress: Callable[[Progress], None] = ignored,
    patience: RetryPolicy = RetryPolicy(),  # noqa: B008 -- a frozen value
    troubled: Troubled = ignore_retry,
) -> Moved:
    """Downloads objects, each completely or not at all. Raises `Cancelled` and `WorkersLost`."""
    ranges_from = ranges_of(store)

    def job(copy: Copy, number: Callable[[], int]) -> Job:
        kind = LargeDownload if copy.size > ranges_from else SmallDownload
        return kind(copy, number, lambda by_length: None)

    return _moved(list(copies), job, RetriedStore(store, cancel, patience, troubled), progress)


def send_files(
    copies: Iterable[Copy],
    store: Store,
    way: Route,
    base: Path,
    cancel: threading.Event,
    *,
    checked: bool = False,
    settled: bool = False,
    progress: Callable[[Progress], None] = ignored,
    patience: RetryPolicy = RetryPolicy(),  # noqa: B008 -- a frozen value
    troubled: Troubled = ignore_retry,
) -> Moved:
    """Uploads files, each completely or not at all. Raises `Cancelled` and `WorkersLost`.

    Multipart uploads are noted beside the local path of `way`, relative to `base`: the next upload of the
    same key resumes what a killed one has left. `checked` and `settled` are those of `LargeUpload`.
    """

    def job(copy: Copy, number: Callable[[], int]) -> Job:
        if copy.size >= store.multipart_from:
            return LargeUpload(copy, number, store.part, checked, settled, uploads, lambda by_length: None)
        return SmallUpload(copy, number, checked, settled, lambda by_length: None)

    with unfinished_uploads([way], base) as (uploads,):
        return _moved(list(copies), job, RetriedStore(store, cancel, patience, troubled), progress)


def abort_unfinished(store: Store, way: Route, base: Path, cancel: threading.Event) -> List[str]:
    """Aborts the multipart uploads that killed runs of `send_files` have left; returns a notice for each."""
    with unfinished_uploads([way], base) as uploads:
        return list(abort_left(uploads, RetriedStore(store, cancel)))


def download_file(store: Store, bucket: str, key: str, found: ObjectState, local: Path) -> None:
    """Downloads an object, completely or not at all.

    Raises:
        StoreError: it failed, also after retries.
        OSError: the disk failed.
    """
    etag = found.version if store.signer is not None else ""
    copy = Copy(os.fspath(local), os.fspath(local.parent), bucket, key, found.size, etag)
    _raise_failure(fetch_files([copy], store, threading.Event()))


def upload_file(store: Store, local: Path, bucket: str, key: str) -> None:
    """Uploads a file, completely or not at all. Raises what `download_file` raises."""
    status, parent = os.stat(local), os.fspath(local.parent)
    copy = Copy(os.fspath(local), parent, bucket, key, status.st_size, mtime_ns=status.st_mtime_ns)
    route = Route(os.fspath(local), ObsUrl(bucket, key))
    _raise_failure(send_files([copy], store, route, local.parent, threading.Event(), checked=True))


def _raise_failure(moved: Moved) -> None:
    for failed in moved.failed:
        raise failed.error


def _moved(
    copies: List[Copy],
    job: Callable[[Copy, Callable[[], int]], Job],
    to: RetriedStore,
    progress: Callable[[Progress], None],
) -> Moved:
    found = Moved([], [])
    work = Work(
        iter(copies),
        len(copies),
        sum(copy.size for copy in copies),
        job,
        found.done.append,
        lambda copy, error: found.failed.append(FailedCopy(copy, error)),
    )
    if copies:
        move_files(work, to, progress)
    return found
