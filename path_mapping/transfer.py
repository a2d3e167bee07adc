"""Carries out the copies of a mapping: each file whole or not at all, each failure told."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterable, Iterator, List, Sequence, Tuple, TypeVar

from path_mapping.config import Route
from path_mapping.errors import (
    Cancelled,
    Failure,
    MissingInputs,
    NotFound,
    PathMappingError,
    StoreError,
    TransferFailed,
    Unreachable,
    UnsafeTarget,
)
from path_mapping.local_file import chunks, contained, make_directories, md5_of, write_verified
from path_mapping.plan import Copy, clashes, distinct, downloads, local_path, shown, uploads
from path_mapping.store import Store, StoredObject

ATTEMPTS = 5
CHANGED_ATTEMPTS = 3

Result = TypeVar("Result")
Item = TypeVar("Item")


@dataclass(frozen=True)
class Progress:
    """How far a transfer is."""

    files_done: int
    files: int
    bytes_done: int
    bytes: int


@dataclass(frozen=True)
class Transferred:
    """A transfer that is over; `missing` are the outputs with nothing at their local path."""

    files: int
    bytes: int
    seconds: float
    missing: Tuple[Route, ...]


def download(
    routes: Sequence[Route],
    base: Path,
    store: Store,
    *,
    cancel: threading.Event,
    progress: Callable[[Progress], None],
) -> Transferred:
    """Fetches all inputs; relative local paths start at `base`.

    Before the first byte is written every input is known to exist (`MissingInputs`) and every key to be a
    safe path below its target (`UnsafeTarget`). Raises `TransferFailed` after all other files are there,
    `StoreError` when the store does not answer at all, and `Cancelled` soon after `cancel` is set.
    """
    started = time.monotonic()
    copies, empty = _planned_downloads(routes, base, store, cancel)
    failures: List[Failure] = []
    for route in empty:
        try:
            make_directories(local_path(route, base))
        except OSError as error:
            failures.append(Failure(str(route.remote), route.local, error))

    def fetch(copy: Copy, moved: Callable[[int], None]) -> None:
        _retrying(lambda: _fetch(copy, store, moved), cancel)

    _run(copies, fetch, failures, cancel, progress, lambda copy: (copy.url, str(copy.local)))
    return Transferred(len(copies), sum(copy.size for copy in copies), time.monotonic() - started, ())


def upload(
    routes: Sequence[Route],
    base: Path,
    store: Store,
    *,
    cancel: threading.Event,
    progress: Callable[[Progress], None],
) -> Transferred:
    """Stores all outputs; nothing is deleted, neither here nor there.

    Raises `TransferFailed` after all other files are stored, and `Cancelled` soon after `cancel` is set.
    """
    started = time.monotonic()
    failures: List[Failure] = []
    planned = [(route, uploads(route, base, failures)) for route in routes]
    copies = distinct([copy for _, found in planned for copy in found or ()], failures)

    def send(copy: Copy, moved: Callable[[int], None]) -> None:
        _retrying(lambda: _send(copy, store, moved, cancel), cancel)

    _run(copies, send, failures, cancel, progress, lambda copy: (shown(copy.local), copy.url))
    missing = tuple(route for route, found in planned if found is None)
    return Transferred(len(copies), sum(copy.size for copy in copies), time.monotonic() - started, missing)


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
        return _retrying(
            lambda: list(_until(cancel, store.list(route.remote.bucket, route.remote.key))), cancel
        )
    except NotFound:
        return []


def _run(
    copies: Sequence[Copy],
    move: Callable[[Copy, Callable[[int], None]], None],
    failures: List[Failure],
    cancel: threading.Event,
    progress: Callable[[Progress], None],
    ends: Callable[[Copy], Tuple[str, str]],
) -> None:
    """Moves one file after the other; a file that fails does not stop the rest."""
    total, done, whole = sum(copy.size for copy in copies), 0, 0
    for number, copy in enumerate(copies):
        of_this = 0

        def moved(size: int, before: int = done, number: int = number, whole_size: int = copy.size) -> None:
            nonlocal of_this
            of_this = min(of_this + size, whole_size)  # a second attempt sends the same bytes again
            if cancel.is_set():
                raise Cancelled("the transfer was given up")
            progress(Progress(number, len(copies), before + of_this, total))

        try:
            moved(0)
            move(copy, moved)
            whole += 1
        except Cancelled:
            raise
        except (PathMappingError, OSError) as error:
            failures.append(Failure(*ends(copy), error))
        done += copy.size
        progress(Progress(number + 1, len(copies), done, total))
    if failures:
        raise TransferFailed(failures, whole)


def _until(cancel: threading.Event, items: Iterable[Item]) -> Iterator[Item]:
    """The items, for as long as nobody gives up."""
    for item in items:
        if cancel.is_set():
            raise Cancelled("the transfer was given up")
        yield item


def _fetch(copy: Copy, store: Store, moved: Callable[[int], None]) -> None:
    contained(copy.local, copy.root)  # each time: a link may have come since the last
    make_directories(copy.root)  # stays, also when the file fails: what is below it is as before then

    def pieces() -> Iterator[bytes]:
        for piece in store.read(copy.bucket, copy.key):
            moved(len(piece))
            yield piece

    write_verified(copy.local, pieces(), copy.size, None)  # the MD5 is the store's business


def _send(copy: Copy, store: Store, moved: Callable[[int], None], cancel: threading.Event) -> None:
    """Stores the file as it was at one moment: one that changes meanwhile is sent again, three times.

    A change makes a store refuse the file too, as its MD5 is another one then: that is no fault of the store.
    """
    for _ in range(CHANGED_ATTEMPTS):
        before = _mark(copy.local)
        md5 = md5_of(_until(cancel, chunks(copy.local)))
        try:
            store.write(copy.bucket, copy.key, copy.local, md5, moved)
        except StoreError:
            if _mark(copy.local) == before:
                raise
        else:
            if _mark(copy.local) == before:
                return
    raise OSError(f"it changed during each of {CHANGED_ATTEMPTS} uploads")


def _mark(path: Path) -> Tuple[int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def _retrying(work: Callable[[], Result], cancel: threading.Event) -> Result:
    """Tries again what `Unreachable` says may help: 5 attempts, some seconds in all, ended by `cancel`.

    The only retries there are: the SDK's own are switched off, so that the two do not multiply.
    """
    import tenacity  # slow to import: only where something is really transferred

    policy = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(Unreachable),
        stop=tenacity.stop_after_attempt(ATTEMPTS) | tenacity.stop_when_event_set(cancel),
        wait=tenacity.wait_random_exponential(multiplier=0.3, max=10),
        sleep=tenacity.sleep_using_event(cancel),
        reraise=True,
    )
    try:
        return policy(work)
    except Unreachable:
        if cancel.is_set():
            raise Cancelled("the transfer was given up") from None
        raise
