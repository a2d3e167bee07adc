"""Prepares a transfer in bounded memory: what is impossible is refused before the first byte."""

from __future__ import annotations

import math
import os
import pickle
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Callable, Generic, NamedTuple, Tuple, TypeVar, Union

from path_mapping.errors import Failure, MissingInputs, NoSpace, NothingSelected, UnsafeTarget, printable
from path_mapping.localfs.atomic_file import write_all
from path_mapping.localfs.names import shown
from path_mapping.localfs.source_file import chunks, md5_of
from path_mapping.mapping.routes import PathMapping, Route, overlaps
from path_mapping.mapping.selection import Shard
from path_mapping.planning.local_tree import local_entry
from path_mapping.planning.plan import (
    COPY,
    DELETE,
    MAKE,
    REFUSE,
    SKIP,
    Copy,
    Ends,
    LocalEntry,
    RecordEntry,
    Step,
    unquoted,
)
from path_mapping.planning.route_scan import (
    Check,
    Lister,
    RouteScan,
    scan_download,
    scan_upload,
    space_problems,
)
from path_mapping.planning.shared_target import HasContent, SharedTarget

IN_MEMORY = 20_000  # items, a few hundred bytes each: nearly every transfer
_BATCH = 1000  # items
_SORTED_BATCH = 100  # items: there is one of each sorted part in memory

Item = TypeVar("Item", bound=Tuple[object, ...])
_Kept = Union[bytes, Tuple[int, int]]  # a batch: compressed, or its place and length in the file


class Spool(Generic[Item]):
    """A long list: items are added, then read in the same order, as often as needed.

    What does not fit is in a temporary file. Where no disk has room for that, it stays in memory, compressed:
    results must come home from a full disk, too.
    """

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._first: list[Item] = []
        self._in_memory = in_memory
        self._file: IO[bytes] | None = None
        self._end = 0  # of the file
        self._kept: list[_Kept] = []
        self._batch: list[Item] = []

    def add(self, item: Item) -> None:
        """Appends an item."""
        if len(self._first) < self._in_memory:
            self._first.append(item)
            return
        self._batch.append(item)
        if len(self._batch) >= _BATCH:
            self._kept.append(self._keep(self._batch))
            self._batch = []

    def __iter__(self) -> Iterator[Item]:
        """All items so far."""
        return chain(self._first, self._read(self._kept), self._batch)

    def in_order_of(self, key: Callable[[Item], Any]) -> Iterator[Item]:
        """The items, sorted by a key: parts of them are sorted and kept, then merged."""
        items, most = iter(self), max(self._in_memory, _BATCH)
        runs: list[Iterator[Item]] = []
        while True:
            run = sorted(islice(items, most), key=key)
            if len(run) < most:
                return merge(run, *runs, key=key)
            starts = range(0, len(run), _SORTED_BATCH)
            runs.append(self._read([self._keep(run[at : at + _SORTED_BATCH]) for at in starts]))

    def _keep(self, batch: Sequence[Item]) -> _Kept:
        data = pickle.dumps(batch)
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 -- closed by close()
            write_all(self._file.fileno(), memoryview(data), self._end)
        except OSError:
            return zlib.compress(data, 1)
        place = (self._end, len(data))
        self._end += len(data)
        return place

    def _read(self, kept: Sequence[_Kept]) -> Iterator[Item]:
        for batch in kept:
            if isinstance(batch, bytes):
                data = zlib.decompress(batch)
            else:
                assert self._file is not None
                data = os.pread(self._file.fileno(), batch[1], batch[0])
            yield from pickle.loads(data)

    def close(self) -> None:
        """Frees the memory and the disk."""
        self._first, self._kept, self._batch = [], [], []
        if self._file is not None:
            self._file.close()
            self._file = None


class Shared(NamedTuple):
    """A target that other writers use, with the arguments of its `redirected`."""

    target: SharedTarget
    has_content: HasContent
    others_done: bool


MOST_KEPT = 1000  # refusals and notices; all of them are counted


class EmptyRoute(NamedTuple):
    """A route whose source gives no file; `why` names the patterns, and is empty if there are no files."""

    route: Route
    why: str


class PreparedTransfer:
    """What is to be done for some routes: read as often as needed, and told what was done.

    `copies` are to be copied, in the order of the routes and their keys, `files` of them with `size` bytes;
    `same` files are not, as both sides are the same. `directories` are empty ones to make: here, or in OBS as
    `name/`. `deletions` are what the other side no longer has. `missing` are the routes with nothing at their
    source. `refused` are objects that cannot be files, `blocked` are files that cannot be moved as they are
    on the disk, and `notices` name what is left out: at most 1,000 of each. `unrecorded` are directories,
    each with the root of its route, with complete files that an earlier run did not record, as it was killed.

    `shared` decides about copies to URLs that other writers use. `diverted` are the paths of files that get
    another key, `stale` are earlier diverted copies whose objects are no longer needed.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        scans: Sequence[RouteScan | None],
        check: Check,
        shared: Shared | None = None,
    ) -> None:
        self._shared = shared
        self.diverted: set[str] = set()
        self.stale: list[Copy] = []
        self._spared = self._spared_bytes = 0
        self.missing = tuple(route for route, scan in zip(routes, scans) if scan is None)
        self.refused: list[Failure] = []
        self.blocked: list[Failure] = []
        self.notices: list[str] = []
        self.unrecorded: set[tuple[str, str]] = set()
        self.copies: Spool[Copy] = Spool()
        self.directories: Spool[Copy] = Spool()
        self.deletions: Spool[Copy] = Spool()
        self._spools = {COPY: self.copies, MAKE: self.directories, DELETE: self.deletions}
        self._scans = {index: scan for index, scan in enumerate(scans) if scan is not None}
        for index, scan in self._scans.items():
            self._read(index, scan, check)
        self.files = sum(scan.files[COPY] for scan in self._scans.values()) - self._spared
        self.size = sum(scan.bytes[COPY] for scan in self._scans.values()) - self._spared_bytes
        self.same = sum(scan.same for scan in self._scans.values()) + self._spared

    def _read(self, index: int, scan: RouteScan, check: Check) -> None:
        learned: Spool[RecordEntry] = Spool()
        ends, root = scan.ends, str(scan.ends.root)
        for step in scan:
            check()
            local = step.local
            spool = self._spools.get(step.action)
            if spool is not None:
                path, key = os.path.join(root, step.name), ends.key_of(step.name)
                mtime_ns = local.mtime_ns if local is not None else 0
                copy = Copy(path, root, ends.bucket, key, step.size, step.etag, index, mtime_ns)
                if step.action == COPY and self._shared is not None and self._shared.target.has(scan.route):
                    self._add_shared(scan, copy, self._shared)
                else:
                    spool.add(copy)
                continue
            if step.etag and local is not None and self._shared is not None:
                self._add_stale(self._shared.target.same(os.path.join(root, step.name)))
            if step.learned and local is not None:
                self.unrecorded.add((os.path.dirname(os.path.join(root, step.name)), root))
                etag = unquoted(step.etag)
                learned.add(RecordEntry(step.name, local.size, local.mtime_ns, etag, step.md5))
            elif step.action == REFUSE or step.named or (local is not None and local.problem):
                self._report(ends, step)
        for entry in learned:  # only now: the record was read along with the steps
            scan.record.put(entry)
        learned.close()

    def _add_shared(self, scan: RouteScan, copy: Copy, shared: Shared) -> None:
        """Adds a copy to a URL that other writers use: to its key, or to another one, or not at all."""
        redirected, stale = shared.target.redirected(
            copy, scan.ends, shared.has_content, others_done=shared.others_done
        )
        self._add_stale(stale)
        if redirected is None:
            self._spared, self._spared_bytes = self._spared + 1, self._spared_bytes + copy.size
            return
        if redirected.key != copy.key:
            self.diverted.add(copy.path)
        self.copies.add(redirected)

    def _add_stale(self, copy: Copy | None) -> None:
        if copy is not None:
            self.stale.append(copy)

    def _report(self, ends: Ends, step: Step) -> None:
        path = shown(ends.root / step.name)
        if step.action == SKIP:
            self.notice(f"{path}: {step.reason}" if step.named else f"{path} is left out: {step.reason}")
        elif step.action == REFUSE:
            url = f"obs://{ends.bucket}/{printable(ends.key_of(step.name))}"
            failures = self.refused if step.local is None else self.blocked
            if len(failures) < MOST_KEPT:
                failures.append(Failure(path, url, OSError(step.reason)))

    def unselected_inputs(self) -> list[EmptyRoute]:
        """The inputs whose patterns select none of their objects."""
        scans = self._scans.values()
        return [EmptyRoute(scan.route, scan.why_nothing("object")) for scan in scans if scan.selects_nothing]

    def empty_outputs(self) -> tuple[EmptyRoute, ...]:
        """The outputs without a file to upload, unless an earlier upload has sent some of theirs."""
        return tuple(
            EmptyRoute(scan.route, scan.why_nothing("file") if scan.selects_nothing else "")
            for scan in self._scans.values()
            if (scan.selects_nothing or scan.is_empty) and not scan.has_sent()
        )

    def notice(self, text: str) -> None:
        """Adds a notice, if there are not too many."""
        if len(self.notices) < MOST_KEPT:
            self.notices.append(text)

    def newest_first(self) -> Iterator[Copy]:
        """What is to be copied, the most urgent first, for when there may not be enough time."""
        newest = max((copy.mtime_ns for copy in self.copies), default=0)
        return self.copies.in_order_of(lambda copy: urgency(copy.size, newest - copy.mtime_ns))

    def targets(self) -> Iterator[Path]:
        """The directories that the routes are: even an empty input exists."""
        return (scan.ends.root for scan in self._scans.values() if not scan.ends.single)

    def downloaded(self, copy: Copy, checked: bool) -> None:
        """Records that the file is complete, so that the next run does not fetch it.

        If its content was not `checked`, its MD5 is not recorded: it need not be the object's.
        """
        scan, local = self._scans[copy.route], local_entry(copy.path)
        if local is not None and copy.etag:
            md5 = md5_of(chunks(copy.local)) if scan.route.checksum and checked else ""
            name = scan.ends.name_of(copy.key)
            scan.record.put(RecordEntry(name, local.size, local.mtime_ns, unquoted(copy.etag), md5))

    def uploaded(self, copy: Copy) -> None:
        """Records that the file is in OBS, in the state and with the ETag that `copy` has."""
        scan = self._scans[copy.route]
        name = scan.ends.name_of(copy.key)
        scan.record.put(RecordEntry(name, copy.size, copy.mtime_ns, unquoted(copy.etag)))

    def forget(self, copy: Copy) -> None:
        """Removes the file from the record: it is gone on both sides, or what is in OBS is not known."""
        scan = self._scans[copy.route]
        scan.record.forget(scan.ends.name_of(copy.key))

    def close(self) -> None:
        """Writes the records and frees memory and disk."""
        for scan in self._scans.values():
            scan.record.close()
        for spool in self._spools.values():
            spool.close()


def urgency(size: int, age_ns: int) -> tuple[int, int]:
    """The sort key of an urgent upload: by age in steps that double from a minute, then by size.

    `age_ns` is relative to the newest file. So the metadata of the last checkpoint goes before its weights,
    and both go before an old log, however small.
    """
    return int(math.log2(max(age_ns, 0) / 60e9 + 1)), size


class UploadChoice(NamedTuple):
    """Which files of the outputs are uploaded now, and in which order.

    `listed`: the target is listed; else the record alone says what it has. `hurry`: there may not be enough
    time, so the newest and smallest files go first. `wanted` returns whether the file at a path may be
    uploaded. `settled`: a file that changes after it was listed is left to a later upload. `recorded`: what
    is sent is recorded beside the output. `shared` knows the URLs that other writers use, which are always
    listed; `others_done` as for `SharedTarget.redirected`, and then a listing that fails is an error.
    """

    listed: bool = True
    hurry: bool = False
    wanted: Callable[[str, LocalEntry], bool] = lambda path, local: True
    settled: bool = False
    recorded: bool = True
    shared: SharedTarget | None = None
    others_done: bool = False

    def is_shared(self, route: Route) -> bool:
        """Returns whether other writers upload to this output's URL."""
        return self.shared is not None and self.shared.has(route)


def prepare_downloads(
    routes: Sequence[Route],
    base: Path,
    lister: Lister,
    shard: Shard,
    check: Check,
    recorded: bool,
) -> PreparedTransfer:
    """Prepares all inputs; writes nothing but records, and these only if they are to be `recorded`.

    Raises:
        MissingInputs: Required inputs do not exist.
        UnsafeTarget: Keys cannot be files below their target, or inputs overlap.
        NothingSelected: The patterns of required inputs select none of their objects.
        NoSpace: A disk is too small.
        StoreError: A listing failed.
    """
    absolute = tuple(Route(str(route.path(base)), route.remote) for route in routes)
    _refuse_overlaps(PathMapping(absolute, ()))
    scans = [scan_download(route, base, lister, shard, check, recorded) for route in routes]
    missing = [str(route.remote) for route, scan in zip(routes, scans) if scan is None and route.required]
    if missing:
        raise MissingInputs(missing)
    prepared = PreparedTransfer(routes, scans, check)
    try:
        if prepared.refused:
            raise UnsafeTarget([f"{refusal.target}: {refusal.error}" for refusal in prepared.refused])
        _check_selection(prepared)
        problems = space_problems(scan for scan in scans if scan is not None)
        if problems:
            raise NoSpace(problems)
    except BaseException:
        prepared.close()
        raise
    return prepared


def _check_selection(prepared: PreparedTransfer) -> None:
    """Adds a notice for optional inputs without a selected object. Raises `NothingSelected` for others."""
    lines: dict[bool, list[str]] = {True: [], False: []}
    for route, why in prepared.unselected_inputs():
        lines[route.required].append(f"{route.remote} (for {route.local}): {why}")
    if lines[True]:
        raise NothingSelected(lines[True])
    for line in lines[False]:
        prepared.notice(line)


def prepare_uploads(
    routes: Sequence[Route],
    base: Path,
    lister: Lister,
    choice: UploadChoice,
    check: Check,
    has_content: HasContent = lambda copy: False,
) -> PreparedTransfer:
    """Prepares all outputs. What cannot be uploaded is in `blocked`, and stops nothing else.

    Raises `UnsafeTarget`: outputs overlap; and what `has_content` raises.
    """
    _refuse_overlaps(PathMapping((), tuple(routes)))
    notices: list[str] = []
    scans = [
        scan_upload(
            route,
            base,
            lister if choice.listed or choice.is_shared(route) else None,
            None if choice.others_done else notices.append,
            choice.wanted,
            check,
            choice.recorded,
        )
        for route in routes
    ]
    shared = Shared(choice.shared, has_content, choice.others_done) if choice.shared is not None else None
    prepared = PreparedTransfer(routes, scans, check, shared)
    prepared.notices[:0] = notices
    return prepared


def _refuse_overlaps(mapping: PathMapping) -> None:
    problems = overlaps(mapping)
    if problems:
        raise UnsafeTarget(problems)
