"""Carries out the copies of a mapping: each file whole or not at all, each failure told."""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Callable, Iterable, Iterator, List, Sequence, Tuple, TypeVar

from path_mapping.config import Route
from path_mapping.errors import (
    Cancelled,
    Failure,
    NotFound,
    PathMappingError,
    StoreError,
    TransferFailed,
    Unreachable,
)
from path_mapping.file_store import FileStore
from path_mapping.local_file import chunks, contained, make_directories, md5_of, new_md5, write_verified
from path_mapping.names import shown
from path_mapping.plan import Copy
from path_mapping.prepare import Prepared, UploadChoice, prepared_downloads, prepared_uploads
from path_mapping.selection import Part
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
    """A transfer that is over; `missing` are the routes with nothing at their source.

    `skipped` files were the same on both sides; `notices` say what was left out.
    """

    files: int
    bytes: int
    seconds: float
    missing: Tuple[Route, ...]
    skipped: int = 0
    notices: Tuple[str, ...] = ()


def download(
    routes: Sequence[Route],
    base: Path,
    store: Store,
    *,
    cancel: threading.Event,
    progress: Callable[[Progress], None],
    part: Part = Part(),  # noqa: B008 -- a frozen value
) -> Transferred:
    """Fetches all inputs; relative local paths start at `base`. What is here already is not fetched again.

    Before the first byte is written every required input is known to exist (`MissingInputs`), every key to be
    a safe path below its target (`UnsafeTarget`), and the disk to have room (`NoSpace`). Raises
    `TransferFailed` after all other files are there, `StoreError` when the store does not answer at all, and
    `Cancelled` soon after `cancel` is set.
    """
    started = time.monotonic()
    failures: List[Failure] = []
    lister, check = partial(listing, store, cancel), partial(_check, cancel)
    with closing(prepared_downloads(routes, base, lister, part, check)) as prepared:
        failures += prepared.blocked
        _change_directories(prepared, failures)

        def fetch(copy: Copy, moved: Callable[[int], None]) -> None:
            _retrying(lambda: _fetch(copy, store, moved), cancel)
            prepared.fetched(copy)

        _run(
            prepared,
            prepared.copies(),
            fetch,
            failures,
            cancel,
            progress,
            lambda copy: (copy.url, shown(copy.local)),
        )
        return _transferred(prepared, started)


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

    Raises `TransferFailed` after all other files are stored, and `Cancelled` soon after `cancel` is set.
    """
    started = time.monotonic()
    failures: List[Failure] = []
    lister, check = partial(listing, store, cancel), partial(_check, cancel)
    with closing(prepared_uploads(routes, base, lister, choice, check)) as prepared:
        failures += prepared.blocked
        _mark_directories(prepared, store, cancel, failures)

        def send(copy: Copy, moved: Callable[[int], None]) -> None:
            _retrying(lambda: _send(copy, store, moved, cancel), cancel)
            prepared.sent(copy)

        copies = prepared.newest_first() if choice.hurry else prepared.copies()
        _run(prepared, copies, send, failures, cancel, progress, lambda copy: (shown(copy.local), copy.url))
        _delete_objects(prepared, store, cancel)
        return _transferred(prepared, started)


def _transferred(prepared: Prepared, started: float) -> Transferred:
    return Transferred(
        prepared.files,
        prepared.size,
        time.monotonic() - started,
        prepared.missing,
        prepared.totals.same,
        tuple(prepared.notices),
    )


def _change_directories(prepared: Prepared, failures: List[Failure]) -> None:
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
    prepared: Prepared, store: Store, cancel: threading.Event, failures: List[Failure]
) -> None:
    """Stores `name/` for each empty directory of the outputs."""
    nothing, empty = Path(os.devnull), new_md5().hexdigest()
    for copy in prepared.directories():
        write = partial(store.write, copy.bucket, copy.key, nothing, empty, lambda size: None)
        try:
            _retrying(write, cancel)
            prepared.sent(copy)
        except StoreError as error:
            failures.append(Failure(shown(copy.local), copy.url, error))


def _delete_objects(prepared: Prepared, store: Store, cancel: threading.Event) -> None:
    """Deletes what this route once sent and no longer has; only after all files have gone well."""
    if not isinstance(store, FileStore):
        return
    failures: List[Failure] = []
    for copy in prepared.deletions():
        try:
            _retrying(partial(store.delete, copy.bucket, copy.key), cancel)
            prepared.deleted(copy)
        except StoreError as error:
            failures.append(Failure("", copy.url, error))
    if failures:
        raise TransferFailed(failures, prepared.files)


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
            first, rest = _retrying(begin, cancel)
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


def _run(
    prepared: Prepared,
    copies: Iterable[Copy],
    move: Callable[[Copy, Callable[[int], None]], None],
    failures: List[Failure],
    cancel: threading.Event,
    progress: Callable[[Progress], None],
    ends: Callable[[Copy], Tuple[str, str]],
) -> None:
    """Moves one file after the other; a file that fails does not stop the rest."""
    total, files, done, whole = prepared.size, prepared.files, 0, 0
    for number, copy in enumerate(copies):
        of_this = 0

        def moved(size: int, before: int = done, number: int = number, whole_size: int = copy.size) -> None:
            nonlocal of_this
            of_this = min(of_this + size, whole_size)  # a second attempt sends the same bytes again
            if cancel.is_set():
                raise Cancelled("the transfer was given up")
            progress(Progress(number, files, before + of_this, total))

        try:
            moved(0)
            move(copy, moved)
            whole += 1
        except Cancelled:
            raise
        except (PathMappingError, OSError) as error:
            failures.append(Failure(*ends(copy), error))
        done += copy.size
        progress(Progress(number + 1, files, done, total))
    if failures:
        raise TransferFailed(failures, whole)


def _until(cancel: threading.Event, items: Iterable[Item]) -> Iterator[Item]:
    """The items, for as long as nobody gives up."""
    for item in items:
        _check(cancel)
        yield item


def _check(cancel: threading.Event) -> None:
    if cancel.is_set():
        raise Cancelled("the transfer was given up")


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
