"""Carries out the copies of a mapping: each file whole or not at all, each failure told."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Callable, Iterator, List, Sequence, Set, Tuple

from path_mapping.errors import (
    Cancelled,
    Failure,
    NotFound,
    PathMappingError,
    StoreError,
    TransferFailed,
    Unreachable,
    UnsafeTarget,
)
from path_mapping.localfs import contained, leftovers, make_directories, new_md5, shown
from path_mapping.mapping import Route, Shard
from path_mapping.planning import Copy, PreparedTransfer, UploadChoice, prepare_downloads, prepare_uploads
from path_mapping.stores import FileStore, Store, StoredObject
from path_mapping.transfer.engine import Progress
from path_mapping.transfer.jobs import GetLarge, Job, PutLarge, get_small, journal_of, put_small, temporary_of
from path_mapping.transfer.moving import Moving, Work
from path_mapping.transfer.parts import RANGES_FROM
from path_mapping.workers.retry import retrying

__all__ = ["Progress", "Transferred", "download", "listing", "upload"]


@dataclass(frozen=True)
class Transferred:
    """A transfer that is over; `missing` are the routes with nothing at their source.

    `skipped` files were the same on both sides, and are neither in `files` nor in `bytes`; `notices` say what
    was left out; `retries` are requests that had to be made again.
    """

    files: int
    bytes: int
    seconds: float
    missing: Tuple[Route, ...]
    skipped: int = 0
    notices: Tuple[str, ...] = ()
    retries: int = 0


def download(
    routes: Sequence[Route],
    base: Path,
    store: Store,
    *,
    cancel: threading.Event,
    progress: Callable[[Progress], None],
    part: Shard = Shard(),  # noqa: B008 -- a frozen value
) -> Transferred:
    """Fetches all inputs; relative local paths start at `base`. What is here already is not fetched again.

    Before the first byte is written every required input is known to exist (`MissingInputs`), every key to be
    a safe path below its target (`UnsafeTarget`), and the disk to have room (`NoSpace`). Raises
    `TransferFailed` after all other files are there, `StoreError` when the store does not answer at all, and
    `Cancelled` soon after `cancel` is set.
    """
    started = time.monotonic()
    lister, check = partial(listing, store, cancel), partial(_check, cancel)
    with closing(prepare_downloads(routes, base, lister, part, check)) as prepared:
        failures = list(prepared.blocked)
        _change_directories(prepared, failures)
        moving = Moving(store, cancel, progress)
        ranges_from = RANGES_FROM if moving.access is not None else sys.maxsize

        def job(copy: Copy, number: Callable[[], int]) -> Job:
            return GetLarge(copy, number) if copy.size > ranges_from else get_small(copy, number)

        def failed(copy: Copy, error: Exception) -> None:
            failures.append(Failure(copy.url, shown(copy.local), error))

        own, places = _unfinished(prepared, ranges_from)
        _sweep(own, places)
        try:
            moving.run(
                Work(prepared.copies(), prepared.files, prepared.size, job, prepared.downloaded, failed)
            )
        finally:
            _sweep(own, places)  # a worker may have been ended, or have died, within a file
        return _transferred(prepared, moving, failures, started)


def upload(
    routes: Sequence[Route],
    base: Path,
    store: Store,
    *,
    cancel: threading.Event,
    progress: Callable[[Progress], None],
    choice: UploadChoice = UploadChoice(),  # noqa: B008 -- a frozen value
) -> Transferred:
    """Stores all outputs; what is in OBS already is not sent again.

    Raises `TransferFailed` after all other files are stored, and `Cancelled` soon after `cancel` is set; a
    large file that was under way then goes on where it was when it is uploaded again.
    """
    started = time.monotonic()
    lister, check = partial(listing, store, cancel), partial(_check, cancel)
    with closing(prepare_uploads(routes, base, lister, choice, check)) as prepared:
        failures = list(prepared.blocked)
        _mark_directories(prepared, store, cancel, failures)
        moving = Moving(store, cancel, progress)
        access = moving.access

        def job(copy: Copy, number: Callable[[], int]) -> Job:
            if access is not None and copy.size >= access.multipart_from:
                return PutLarge(copy, number, access.part)
            return put_small(copy, number, routes[copy.route].checksum)

        def failed(copy: Copy, error: Exception) -> None:
            failures.append(Failure(shown(copy.local), copy.url, error))

        copies = prepared.newest_first() if choice.hurry else prepared.copies()
        moving.run(Work(copies, prepared.files, prepared.size, job, prepared.uploaded, failed))
        if not failures:  # nothing is taken away where something has not arrived
            _delete_objects(prepared, store, cancel, failures)
        return _transferred(prepared, moving, failures, started)


def _transferred(
    prepared: PreparedTransfer, moving: Moving, failures: Sequence[Failure], started: float
) -> Transferred:
    if failures:
        raise TransferFailed(failures, moving.whole)
    return Transferred(
        prepared.files,
        prepared.size,
        time.monotonic() - started,
        prepared.missing,
        prepared.totals.same,
        tuple(prepared.notices),
        moving.retries,
    )


def _change_directories(prepared: PreparedTransfer, failures: List[Failure]) -> None:
    """Makes the empty directories of the inputs, and takes away what is no longer in OBS."""
    for target in prepared.targets():
        try:
            make_directories(target)
        except OSError as error:
            failures.append(Failure("", shown(target), error))
    for copy in prepared.directories():
        try:
            contained(copy.local, copy.root)
            make_directories(copy.local)
        except (PathMappingError, OSError) as error:
            failures.append(Failure(copy.url, shown(copy.local), error))
    for copy in prepared.deletions():
        try:
            contained(copy.local, copy.root)
            copy.local.unlink()
            prepared.deleted(copy)
        except (PathMappingError, OSError) as error:
            failures.append(Failure(copy.url, shown(copy.local), error))


def _mark_directories(
    prepared: PreparedTransfer, store: Store, cancel: threading.Event, failures: List[Failure]
) -> None:
    """Stores `name/` for each empty directory of the outputs."""
    nothing, empty = Path(os.devnull), new_md5().hexdigest()
    for copy in prepared.directories():
        write = partial(store.write, copy.bucket, copy.key, nothing, empty, lambda size: None)
        try:
            retrying(write, cancel)
            prepared.uploaded(copy)
        except StoreError as error:
            failures.append(Failure(shown(copy.local), copy.url, error))


def _delete_objects(
    prepared: PreparedTransfer, store: Store, cancel: threading.Event, failures: List[Failure]
) -> None:
    """Deletes what this route once sent and no longer has."""
    if not isinstance(store, FileStore):
        return
    for copy in prepared.deletions():
        try:
            retrying(partial(store.delete, copy.bucket, copy.key), cancel)
            prepared.deleted(copy)
        except StoreError as error:
            failures.append(Failure("", copy.url, error))


def listing(store: Store, cancel: threading.Event, bucket: str, prefix: str) -> Iterator[StoredObject]:
    """The objects whose keys begin so: none where there is no such bucket.

    A listing that breaks off is begun again, and goes on behind the last key that it had.
    """
    last = ""

    def begin() -> Tuple[List[StoredObject], Iterator[StoredObject]]:
        rest = (found for found in store.list(bucket, prefix) if found.key > last)
        return list(islice(rest, 1)), rest

    while True:
        try:
            first, rest = retrying(begin, cancel)
        except NotFound:
            return
        try:
            for found in chain(first, rest):
                _check(cancel)
                last = found.key
                yield found
            return
        except Unreachable:  # begun again: five failures without a further key end it
            continue


def _check(cancel: threading.Event) -> None:
    if cancel.is_set():
        raise Cancelled("the transfer was given up")


def _unfinished(prepared: PreparedTransfer, ranges_from: int) -> Tuple[Set[str], Set[Tuple[Path, Path]]]:
    """The names of the unfinished files that this run, or the next, takes up; and the directories, each with
    its route's root, where there may be others."""
    own: Set[str] = set()
    places = set(prepared.unrecorded)
    for copy in prepared.copies():
        places.add((copy.local.parent, copy.root))
        if copy.size > ranges_from:
            own |= {temporary_of(copy), journal_of(temporary_of(copy))}
    return own, places


def _sweep(own: Set[str], places: Set[Tuple[Path, Path]]) -> None:
    """Removes what was left of files in these places by whoever is dead, but for our own."""
    for directory, root in places:
        for path in leftovers(os.fspath(directory)):
            with contextlib.suppress(OSError, UnsafeTarget):
                contained(directory / "x", root)
                if os.path.basename(path) not in own:
                    os.unlink(path)
