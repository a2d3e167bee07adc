"""Carries out the copies of a mapping: each file whole or not at all, each failure told."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, List, Optional, Sequence, Tuple

from path_mapping.config import Route
from path_mapping.engine import Progress
from path_mapping.errors import Failure, MissingInputs, NotFound, TransferFailed, UnsafeTarget
from path_mapping.folder import leftovers
from path_mapping.jobs import GetLarge, Job, PutLarge, get_small, journal_of, put_small, temporary_of
from path_mapping.local_file import contained, make_directories
from path_mapping.marks import mark_of, unchanged
from path_mapping.moving import Moving
from path_mapping.parts import RANGES_FROM
from path_mapping.plan import Copy, clashes, distinct, downloads, local_path, shown, uploads
from path_mapping.retry import retrying
from path_mapping.store import Store, StoredObject
from path_mapping.store_path import until

__all__ = ["Progress", "Transferred", "download", "upload"]


@dataclass(frozen=True)
class Transferred:
    """A transfer that is over; `missing` are the outputs with nothing at their local path.

    `skipped` files were there already, and are neither in `files` nor in `bytes`; `retries` are requests that
    had to be made again.
    """

    files: int
    bytes: int
    seconds: float
    missing: Tuple[Route, ...]
    skipped: int = 0
    retries: int = 0


def download(
    routes: Sequence[Route],
    base: Path,
    store: Store,
    *,
    cancel: threading.Event,
    progress: Callable[[Progress], None],
    stall_timeout: Optional[float] = None,
) -> Transferred:
    """Fetches all inputs; relative local paths start at `base`. What an earlier run brought stays as it is.

    Before the first byte is written every input is known to exist (`MissingInputs`) and every key to be a
    safe path below its target (`UnsafeTarget`). Raises `TransferFailed` after all other files are there,
    `StoreError` when the store does not answer at all, and `Cancelled` soon after `cancel` is set. A request
    of which nothing moves for `stall_timeout` seconds (else the store's own timeout) has failed.
    """
    started = time.monotonic()
    planned, empty = _planned_downloads(routes, base, store, cancel)
    failures: List[Failure] = []
    for route in empty:
        try:
            make_directories(local_path(route, base))
        except OSError as error:
            failures.append(Failure(str(route.remote), route.local, error))
    copies = [copy for copy in until(cancel, planned) if not _is_there(copy)]
    moving = Moving(store, stall_timeout, cancel, progress)
    ranges_from = RANGES_FROM if moving.access is not None else sys.maxsize
    for root in {copy.root for copy in copies}:
        with contextlib.suppress(OSError):  # then each file of it says so
            make_directories(root)
    _sweep(copies, ranges_from)

    def job(copy: Copy, number: Callable[[], int]) -> Job:
        return GetLarge(copy, number) if copy.size > ranges_from else get_small(copy, number)

    try:
        moving.run(
            copies, job, lambda copy, error: failures.append(Failure(copy.url, str(copy.local), error))
        )
    finally:
        _sweep(copies, ranges_from)  # a worker may have been ended, or have died, in the middle of a file
    skipped, size = len(planned) - len(copies), sum(copy.size for copy in copies)
    if failures:
        raise TransferFailed(failures, moving.whole + skipped)
    return Transferred(len(copies), size, time.monotonic() - started, (), skipped, moving.retries)


def upload(
    routes: Sequence[Route],
    base: Path,
    store: Store,
    *,
    cancel: threading.Event,
    progress: Callable[[Progress], None],
    stall_timeout: Optional[float] = None,
    checksum: bool = False,
) -> Transferred:
    """Stores all outputs; nothing is deleted, neither here nor there. `checksum` sends MD5s along.

    Raises `TransferFailed` after all other files are stored, and `Cancelled` soon after `cancel` is set; a
    large file that was under way then goes on where it was when it is uploaded again.
    """
    started = time.monotonic()
    failures: List[Failure] = []
    planned = [(route, uploads(route, base, failures)) for route in routes]
    copies = distinct([copy for _, found in planned for copy in found or ()], failures)
    moving = Moving(store, stall_timeout, cancel, progress)
    access = moving.access

    def job(copy: Copy, number: Callable[[], int]) -> Job:
        if access is not None and copy.size >= access.multipart_from:
            return PutLarge(copy, number, access.part)
        return put_small(copy, number, checksum)

    moving.run(copies, job, lambda copy, error: failures.append(Failure(shown(copy.local), copy.url, error)))
    if failures:
        raise TransferFailed(failures, moving.whole)
    missing = tuple(route for route, found in planned if found is None)
    size = sum(copy.size for copy in copies)
    return Transferred(len(copies), size, time.monotonic() - started, missing, 0, moving.retries)


def _planned_downloads(
    routes: Sequence[Route], base: Path, store: Store, cancel: threading.Event
) -> Tuple[List[Copy], List[Route]]:
    """The copies, and the routes of directories that exist and are empty."""
    copies: List[Copy] = []
    empty: List[Route] = []
    missing: List[str] = []
    problems: List[str] = []
    for route in routes:
        planned = downloads(route, _listed(route, store, cancel), base, problems)
        if planned is None:
            missing.append(str(route.remote))
        elif not planned:
            empty.append(route)
        copies += planned or ()
    if missing:
        raise MissingInputs(missing)
    problems += clashes(copies)
    if problems:
        raise UnsafeTarget(problems)
    return copies, empty


def _listed(route: Route, store: Store, cancel: threading.Event) -> List[StoredObject]:
    """The objects that the route may mean: none where there is no such bucket."""
    try:
        return retrying(
            lambda: list(until(cancel, store.list(route.remote.bucket, route.remote.key))), cancel
        )
    except NotFound:
        return []


def _is_there(copy: Copy) -> bool:
    """True for a file that an earlier run fetched whole, and that neither side has changed since."""
    mark = mark_of(copy.local)
    return mark is not None and unchanged(copy.size, copy.etag, mark, os.stat(copy.local))


def _sweep(copies: Sequence[Copy], ranges_from: int) -> None:
    """Removes what was left of files by whoever is dead, but for what this run, or the next, takes up."""
    large = [copy for copy in copies if copy.size > ranges_from]
    wanted = {name for copy in large for name in (temporary_of(copy), journal_of(temporary_of(copy)))}
    for directory, root in {(copy.local.parent, copy.root) for copy in copies}:
        for path in leftovers(os.fspath(directory)):
            with contextlib.suppress(OSError, UnsafeTarget):
                contained(directory / "x", root)
                if os.path.basename(path) not in wanted:
                    os.unlink(path)
