"""Downloads the inputs of a mapping and uploads its outputs: each file completely or not at all."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Callable, NamedTuple

from path_mapping.errors import Corrupted, Failure, StoreError, TransferFailed, UnsafeTarget, printable
from path_mapping.localfs.atomic_file import check_contained, leftovers, make_directories
from path_mapping.localfs.names import shown
from path_mapping.localfs.source_file import CHANGED_ATTEMPTS, FileChanged
from path_mapping.mapping.routes import ObsUrl, Route
from path_mapping.mapping.selection import Shard
from path_mapping.planning.plan import unquote_etag
from path_mapping.planning.prepare import UploadChoice, prepare_downloads, prepare_uploads
from path_mapping.planning.prepared_transfer import EmptyRoute, PreparedTransfer
from path_mapping.stores.objects import Copy, ObjectState
from path_mapping.stores.store import Store
from path_mapping.transfer.download_jobs import download_job, journal_of, ranges_of, temporary_of
from path_mapping.transfer.jobs import Job, upload_job
from path_mapping.transfer.left_uploads import abort_left, unfinished_uploads
from path_mapping.transfer.same_content import has_content
from path_mapping.transfer.scheduler import Progress, Work, move_files
from path_mapping.workers.retry import RetriedStore


class Transferred(NamedTuple):
    """Result of a transfer without failures.

    `files` and `bytes` were moved in `seconds`; `skipped` files were the same on both sides. `missing` are
    the routes whose source does not exist, `notices` name files that were left out, `retries` is the number
    of retried requests, and `by_length` that of files that could be compared by their length only.
    `deferred` files were not uploaded, as they changed after they were listed (see `UploadChoice.settled`).
    `empty` are outputs that exist, but have no file to upload and had none earlier.
    """

    files: int
    bytes: int
    seconds: float
    missing: tuple[Route, ...]
    skipped: int = 0
    notices: tuple[str, ...] = ()
    retries: int = 0
    by_length: int = 0
    deferred: int = 0
    empty: tuple[EmptyRoute, ...] = ()


class Results:
    """Results of the files of a transfer.

    `files` of `size` bytes were moved. `uncompared` are the paths of those that could be compared by their
    length only, as OBS stated no checksum.
    """

    def __init__(self, prepared: PreparedTransfer) -> None:
        self.failures = list(prepared.findings.blocked)
        self.files = self.size = self.deferred = 0
        self.uncompared: set[str] = set()
        self._prepared = prepared

    def result(self, retries: int, seconds: float, empty: tuple[EmptyRoute, ...] = ()) -> Transferred:
        """The result of the transfer. Raises `TransferFailed`."""
        if self.failures:
            raise TransferFailed(self.failures, self.files)
        prepared = self._prepared
        return Transferred(
            files=self.files,
            bytes=self.size,
            seconds=seconds,
            missing=prepared.missing,
            skipped=prepared.same,
            notices=tuple(prepared.findings.notices),
            retries=retries,
            by_length=len(self.uncompared),
            deferred=self.deferred,
            empty=empty,
        )

    def _add(self, job: Job) -> None:
        self.files += 1
        self.size += job.copy.size


class DownloadResults(Results):
    """Results of the files of a download."""

    def done(self, job: Job) -> None:
        """Records a file that is complete."""
        self._prepared.downloaded(job.copy, job.compared)
        self._add(job)
        if not job.compared:
            self.uncompared.add(job.copy.path)

    def failed(self, copy: Copy, error: Exception) -> None:
        """Notes a file that has failed."""
        self.failures.append(Failure(copy.url, shown(copy.local), error))


class UploadResults(Results):
    """Results of the files of an upload.

    A file that was removed before it was sent is a notice: the training deletes old checkpoints. A file that
    has changed since it was listed has failed; with `UploadChoice.settled` it is one of the `deferred`.
    """

    def __init__(self, prepared: PreparedTransfer, choice: UploadChoice) -> None:
        super().__init__(prepared)
        self._settled, self._shared = choice.settled, choice.shared
        # By path: files as sent, whose state differs from that in which they were listed.
        self._others: dict[str, Copy] = {}
        self._sent: set[str] = set()
        self._unsent: set[str] = set()

    def run(self, work: Work, to: RetriedStore, progress: Callable[[Progress], None]) -> int:
        """Sends the files, and again those that changed meanwhile; returns the number of retried requests.

        Raises what `move_files` raises.
        """
        retries = 0
        for attempt in range(1, CHANGED_ATTEMPTS + 1):
            retries += move_files(work, to, progress)
            changed = [] if self._settled else list(self._changed())
            if not changed:
                break
            if attempt == CHANGED_ATTEMPTS:
                for copy in changed:
                    self._prepared.findings.notice(f"{shown(copy.local)} changed again after it was uploaded")
            size = sum(copy.size for copy in changed)
            work = work._replace(copies=iter(changed), files=len(changed), size=size)
        return retries

    def left(self) -> Iterator[Copy]:
        """The files that were not sent."""
        return (copy for copy in self._prepared.copies if copy.path not in self._sent)

    def done(self, job: Job) -> None:
        """Records a file as it was sent."""
        copy, listed = job.copy, job.listed
        self._sent.add(copy.path)
        if not job.compared:
            self.uncompared.add(copy.path)
        if copy.path not in self._others:
            self._add(job)
        if (copy.size, copy.mtime_ns) != (listed.size, listed.mtime_ns) or copy.path in self._others:
            self._others[copy.path] = copy
        is_diverted = copy.path in self._prepared.diversions.diverted
        if self._shared is not None:
            self._shared.wrote(copy, is_diverted)
        if not is_diverted:
            self._prepared.uploaded(copy)

    def failed(self, copy: Copy, error: Exception) -> None:
        """Notes a file that was not sent."""
        self._unsent.add(copy.path)
        if isinstance(error, FileNotFoundError) and not os.path.exists(copy.path):
            self._prepared.findings.notice(f"{shown(copy.local)} was removed before it was uploaded")
        elif isinstance(error, FileChanged) and self._settled:
            self.deferred += 1
        else:
            if isinstance(error, Corrupted):  # what is in OBS now is not what the record says
                self._prepared.forget(copy)
            self.failures.append(Failure(shown(copy.local), copy.url, error))

    def _changed(self) -> Iterator[Copy]:
        """The files that have changed since they were sent, as they are now."""
        for listed in self._prepared.copies:
            if listed.path in self._unsent:
                continue
            sent = self._others.get(listed.path, listed)
            try:
                status = os.stat(listed.path)
            except OSError:
                continue  # removed since
            if (status.st_size, status.st_mtime_ns) != (sent.size, sent.mtime_ns):
                self._others[listed.path] = sent
                yield listed._replace(size=status.st_size, mtime_ns=status.st_mtime_ns)


def ignored(progress: Progress) -> None:
    """Ignores the progress of a transfer."""


def download(
    routes: Sequence[Route],
    base: Path,
    to: RetriedStore,
    progress: Callable[[Progress], None] = ignored,
    *,
    part: Shard = Shard(),  # noqa: B008 -- a frozen value
    recorded: bool = True,
) -> Transferred:
    """Downloads all inputs; files that are here already are skipped. Relative local paths start at `base`.

    The state of the files is `recorded` beside the target of each route; otherwise nothing is left there but
    the files.

    Raises:
        MissingInputs: required inputs do not exist; nothing was written.
        NothingSelected: the patterns of required inputs select no object; nothing was written.
        UnsafeTarget: keys that are not safe paths below their target; nothing was written.
        NoSpace: the disk is too small; nothing was written.
        TransferFailed: some files failed; all others were downloaded.
        StoreError: the store cannot be listed.
        WorkersLost: all worker processes died.
        Cancelled: soon after `cancel` of the store is set.
    """
    started, store = time.monotonic(), to.store
    plan = prepare_downloads(routes, base, to.input_objects, shard=part, check=to.check, recorded=recorded)
    with closing(plan) as prepared:
        results = DownloadResults(prepared)
        _change_directories(prepared, results.failures)

        def job(copy: Copy) -> Job:
            return download_job(copy, store)

        own, places = _unfinished(prepared, ranges_of(store))
        _sweep(own, places)
        try:
            work = _work(prepared, iter(prepared.copies), job, results, down=True)
            retries = move_files(work, to, progress)
        finally:
            _sweep(own, places)  # a worker may have been killed in the middle of a file
        return results.result(retries, time.monotonic() - started)


def _work(
    prepared: PreparedTransfer,
    copies: Iterator[Copy],
    job_of: Callable[[Copy], Job],
    results: DownloadResults | UploadResults,
    down: bool = False,
) -> Work:
    """All prepared copies as work whose outcomes become `results`."""
    return Work(
        copies=copies,
        files=prepared.files,
        size=prepared.size,
        job_of=job_of,
        done=results.done,
        failed=results.failed,
        down=down,
    )


def upload(
    routes: Sequence[Route],
    base: Path,
    to: RetriedStore,
    progress: Callable[[Progress], None] = ignored,
    *,
    choice: UploadChoice = UploadChoice(),  # noqa: B008 -- a frozen value
    unsent: Callable[[Iterator[Copy]], None] = lambda copies: None,
) -> Transferred:
    """Uploads all outputs; files that are in OBS already are skipped. Relative local paths start at `base`.

    `unsent` is called with the files that were not sent before something is raised, if they are known.

    Raises:
        UnsafeTarget: outputs overlap; nothing was uploaded.
        TransferFailed: some files failed; all others were uploaded. A listing that fails is a notice.
        StoreError: with `others_done`, a shared target cannot be listed.
        WorkersLost: all worker processes died.
        Cancelled: soon after `cancel` of the store is set; the next upload resumes a large file where this
            one stopped.
    """
    started, store = time.monotonic(), to.store
    with ExitStack() as stack:
        if choice.shared is not None and not choice.others_done:
            stack.enter_context(choice.shared.writing())
        plan = prepare_uploads(
            routes, base, to.listing, choice=choice, check=to.check, has_content=partial(has_content, to)
        )
        prepared = stack.enter_context(closing(plan))
        results = UploadResults(prepared, choice)
        _mark_directories(prepared, to, results.failures)
        uploads = stack.enter_context(unfinished_uploads(routes, base))

        def job(copy: Copy) -> Job:
            checked, noted = routes[copy.route].checksum, uploads[copy.route]
            return upload_job(copy, store, checked=checked, settled=choice.settled, uploads=noted)

        copies = prepared.newest_first() if choice.hurry else iter(prepared.copies)
        try:
            retries = results.run(_work(prepared, copies, job, results), to, progress)
        except BaseException:
            unsent(results.left())
            raise
        if not results.failures:  # nothing is deleted as long as a file has not been uploaded
            _delete_objects(prepared, to, results.failures)
        if choice.aborts_left:
            for notice in abort_left(uploads, to):
                prepared.findings.notice(notice)
        return results.result(retries, time.monotonic() - started, prepared.empty_outputs())


@contextmanager
def _noting(failures: list[Failure], source: str, target: str) -> Iterator[None]:
    """Adds an error of the block to the failures."""
    try:
        yield
    except (StoreError, UnsafeTarget, OSError) as error:
        failures.append(Failure(source, target, error))


def _change_directories(prepared: PreparedTransfer, failures: list[Failure]) -> None:
    """Creates the directories of the inputs, empty ones too, and deletes files that are no longer in OBS."""
    for target in prepared.targets():
        with _noting(failures, "", shown(target)):
            make_directories(target)
    for copy in prepared.directories:
        with _noting(failures, copy.url, shown(copy.local)):
            check_contained(copy.local, Path(copy.root))
            make_directories(copy.local)
    for copy in prepared.deletions:
        with _noting(failures, copy.url, shown(copy.local)):
            check_contained(copy.local, Path(copy.root))
            copy.local.unlink()
            prepared.forget(copy)


def _mark_directories(prepared: PreparedTransfer, to: RetriedStore, failures: list[Failure]) -> None:
    """Uploads a marker `name/` for each empty directory of the outputs."""
    for copy in prepared.directories:
        with _noting(failures, shown(copy.local), copy.url):
            prepared.uploaded(copy._replace(etag=to.write_bytes(copy.bucket, copy.key, b"")))


def _delete_objects(prepared: PreparedTransfer, to: RetriedStore, failures: list[Failure]) -> None:
    """Deletes objects whose files an output no longer has; objects that were changed since are kept."""
    for copy in prepared.deletions:
        with _noting(failures, "", copy.url):
            listed = next(to.listing(copy.bucket, copy.key), None)
            if listed is not None and listed.key == copy.key:
                if unquote_etag(listed.etag) != copy.etag:
                    url = printable(copy.url)
                    prepared.findings.notice(f"{url} is not deleted: it has changed since its upload")
                    continue
                to.delete(copy.bucket, copy.key)
            prepared.forget(copy)
    for copy in prepared.diversions.stale:
        with _noting(failures, "", copy.url):
            to.delete(copy.bucket, copy.key)


def _unfinished(prepared: PreparedTransfer, ranges_from: float) -> tuple[set[str], set[tuple[str, str]]]:
    """Returns the names of temporary files that this run or the next one resumes, and the places of others.

    The places are directories, each with the root of its route.
    """
    own: set[str] = set()
    places = set(prepared.unrecorded)
    for copy in prepared.copies:
        places.add((os.path.dirname(copy.path), copy.root))
        if copy.size > ranges_from:
            own |= {temporary_of(copy), journal_of(temporary_of(copy))}
    return own, places


def _sweep(own: set[str], places: set[tuple[str, str]]) -> None:
    """Removes the temporary files of dead processes in these places, except those of this transfer."""
    for directory, root in places:
        for path in leftovers(directory):
            with suppress(OSError, UnsafeTarget):
                check_contained(Path(directory, "x"), Path(root))
                if os.path.basename(path) not in own:
                    os.unlink(path)


class FailedCopy(NamedTuple):
    """A file that was not moved, with its error."""

    copy: Copy
    error: Exception


class Moved(NamedTuple):
    """The files that were moved, in the state in which they were sent, and those that were not."""

    done: list[Copy]
    failed: list[FailedCopy]


def fetch_files(
    copies: Iterable[Copy], to: RetriedStore, progress: Callable[[Progress], None] = ignored
) -> Moved:
    """Downloads objects, each completely or not at all. Raises `Cancelled` and `WorkersLost`."""

    def job(copy: Copy) -> Job:
        return download_job(copy, to.store)

    return _moved(list(copies), job, to, progress)


def send_files(
    copies: Iterable[Copy],
    to: RetriedStore,
    way: Route,
    base: Path,
    *,
    checked: bool = False,
    settled: bool = False,
) -> Moved:
    """Uploads files, each completely or not at all. Raises `Cancelled` and `WorkersLost`.

    Multipart uploads are noted beside the local path of `way`, relative to `base`: the next upload of the
    same key resumes what a killed one has left. `checked` and `settled`: see `FileUpload`.
    """

    def job(copy: Copy) -> Job:
        return upload_job(copy, to.store, checked=checked, settled=settled, uploads=uploads)

    with unfinished_uploads([way], base) as (uploads,):
        return _moved(list(copies), job, to)


def abort_unfinished(to: RetriedStore, way: Route, base: Path) -> list[str]:
    """Aborts the multipart uploads that killed runs of `send_files` have left; returns a notice for each."""
    with unfinished_uploads([way], base) as uploads:
        return list(abort_left(uploads, to))


def download_file(store: Store, bucket: str, key: str, state: ObjectState, local: Path) -> None:
    """Downloads an object, completely or not at all.

    Raises:
        StoreError: it failed, also after retries.
        OSError: the disk failed.
    """
    etag = state.version if store.signer is not None else ""
    root = os.fspath(local.parent)
    copy = Copy(os.fspath(local), root, bucket=bucket, key=key, size=state.size, etag=etag)
    _raise_failure(fetch_files([copy], RetriedStore(store)))


def upload_file(store: Store, local: Path, bucket: str, key: str) -> None:
    """Uploads a file, completely or not at all. Raises what `download_file` raises."""
    status, parent = os.stat(local), os.fspath(local.parent)
    size, mtime_ns = status.st_size, status.st_mtime_ns
    copy = Copy(os.fspath(local), parent, bucket=bucket, key=key, size=size, mtime_ns=mtime_ns)
    route = Route(os.fspath(local), ObsUrl(bucket, key))
    _raise_failure(send_files([copy], RetriedStore(store), route, local.parent, checked=True))


def _raise_failure(moved: Moved) -> None:
    for failed in moved.failed:
        raise failed.error


def _moved(
    copies: list[Copy],
    job: Callable[[Copy], Job],
    to: RetriedStore,
    progress: Callable[[Progress], None] = ignored,
) -> Moved:
    moved = Moved([], [])
    work = Work(
        copies=iter(copies),
        files=len(copies),
        size=sum(copy.size for copy in copies),
        job_of=job,
        done=lambda job: moved.done.append(job.copy),
        failed=lambda copy, error: moved.failed.append(FailedCopy(copy, error)),
    )
    if copies:
        move_files(work, to, progress)
    return moved
