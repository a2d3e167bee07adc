"""Jobs of downloads: each file is downloaded, checked, and then moved into its place."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from path_mapping.errors import TargetRemoved, Unreachable
from path_mapping.localfs.atomic_file import (
    PartJournal,
    TargetDir,
    allocate,
    host_mark,
    locks_are_local,
    put_mark,
    stem_of,
)
from path_mapping.localfs.names import TEMPORARY
from path_mapping.localfs.source_file import crc64_of_parts
from path_mapping.stores.contents import RIGHT, UNSURE, WRONG, ContentMatch
from path_mapping.stores.objects import Copy
from path_mapping.stores.store import Store
from path_mapping.stores.units import CheckFile, FetchedRange, GetFile, GetRange, Unit
from path_mapping.transfer.jobs import Job, next_number
from path_mapping.transfer.parts import RANGE, RANGES_FROM, identity, part_size, spans

# Readings of an object whose content is never right, before it fails.
MOST_READINGS = {WRONG: 2, UNSURE: 3}
# Unfinished files that other processes may take from a large download, before it fails.
MOST_FILES = 3


def is_good(match: ContentMatch, crc: int, seen: Sequence[int], url: str) -> bool:
    """Tells whether a file with this CRC-64 may move into its place; False if it has to be read once more.

    Content without a checksum to compare it with is good. UNSURE content is good if two readings are the
    same: `seen` are the CRCs of the earlier ones. Raises `Unreachable` after the last reading.
    """
    if match.verdict not in MOST_READINGS or (match.verdict == UNSURE and crc in seen):
        return True
    if len(seen) + 1 >= MOST_READINGS[match.verdict]:
        raise Unreachable(f"reading {url}: {match.why}, after {len(seen) + 1} attempts")
    return False


class SmallDownload(Job):
    """A file that is downloaded by one request, and again while its content is UNSURE."""

    def __init__(self, copy: Copy) -> None:
        super().__init__(copy)
        self._seen: list[int] = []

    def start(self) -> Iterable[Unit]:
        return (GetFile(next_number(), self.copy, tuple(self._seen)),)

    def proceed(self, unit: Unit, value: Any) -> Iterable[Unit]:
        match: ContentMatch = value
        if not is_good(match, match.crc, self._seen, self.copy.url):
            self._seen.append(match.crc)
            return self.start()
        self.compared = match.verdict == RIGHT
        return ()


def ranges_of(store: Store) -> float:
    """Returns the size in bytes from which on objects of the store are downloaded in ranges."""
    return RANGES_FROM if store.signer is not None else math.inf


def download_job(copy: Copy, store: Store) -> Job:
    """Returns the job that downloads an object: in ranges if it is large."""
    return LargeDownload(copy) if copy.size > ranges_of(store) else SmallDownload(copy)


def temporary_of(copy: Copy) -> str:
    """Returns the name of the temporary file of a large download, by which a later run finds it.

    Where the locks of other hosts are not visible, only a later run on this host finds it.
    """
    version = identity(copy.bucket, copy.key, copy.etag, copy.size, part_size(copy.size, RANGE))
    if locks_are_local(copy.root):
        version = host_mark() + version[:8]
    return f".{stem_of(copy.local.name)}.{version}{TEMPORARY}"


def journal_of(temporary: str) -> str:
    """Returns the name of the journal of a temporary file."""
    return temporary[: -len(TEMPORARY)] + ".parts" + TEMPORARY


class LargeDownload(Job):
    """A file that is downloaded in ranges, to a temporary file that a later run resumes."""

    def __init__(self, copy: Copy) -> None:
        super().__init__(copy)
        self._part = part_size(copy.size, RANGE)
        self._spans = spans(copy.size, self._part)
        self._crcs: dict[int, int] = {}
        # The CRC-64 of each reading so far.
        self._seen: list[int] = []
        # The number of unfinished files that it has had.
        self._files = 0
        self._is_open = False

    def start(self) -> Iterable[Unit]:
        """Opens the temporary file of an earlier run, or a new one if another run may be working on that."""
        with ExitStack() as undo:
            self._directory = TargetDir(os.path.dirname(self.copy.path), self.copy.root)
            undo.callback(self._directory.close)
            undo.callback(self._directory.undo)
            self._temporary, self._file = self._unfinished()
            undo.callback(os.close, self._file)
            undo.callback(self._discard)
            self._journal = PartJournal(journal_of(self._temporary), self._directory.handle)
            undo.callback(self._journal.close)
            known = self._known()
            undo.pop_all()
        self._is_open = True
        self._files += 1
        return self._units(known, self._path)

    @property
    def _path(self) -> str:
        return os.path.join(self._directory.path, self._temporary)

    def _unfinished(self) -> tuple[str, int]:
        """Returns name and descriptor of the temporary file; only a locked file gets the common name."""
        name, common = self.copy.local.name, temporary_of(self.copy)
        if self.copy.etag and not self._files:
            file = self._directory.resume(common, self.copy.size)
            if file is not None:
                return common, file
            with suppress(FileExistsError):
                return self._directory.create(name, common)
        return self._directory.create(name)

    def _known(self) -> dict[int, int]:
        """Returns the ranges in the journal of the file; a new file gets its full size, and has none."""
        if os.fstat(self._file).st_size == self.copy.size:
            return self._journal.known()
        self._journal.forget()
        allocate(self._file, self.copy.size)
        return {}

    def _discard(self) -> None:
        if self._directory.has(self._temporary, self._file):
            self._directory.discard(self._temporary)
            self._directory.discard(journal_of(self._temporary))

    def _units(self, known: dict[int, int], path: str) -> Iterator[Unit]:
        for index, (offset, length) in enumerate(self._spans):
            if path != self._path:
                return
            yield GetRange(
                next_number(), self.copy, path, offset=offset, length=length, known=known.get(index)
            )

    def proceed(self, unit: Unit, value: Any) -> Iterable[Unit]:
        """Notes the range; after the last one the file is checked, and then moves into its place.

        Begins anew in a file of its own, if another process has taken the common one.
        """
        assert isinstance(unit, (GetRange, CheckFile))
        if unit.path != self._path:
            return ()  # the unit of a file that was taken
        if value is None:
            return self._again()
        if isinstance(unit, CheckFile):
            return self._checked(unit.crc, value)
        fetched: FetchedRange = value
        index = unit.offset // self._part
        if not fetched.kept:
            self._journal.note(index, fetched.crc)
        self._crcs[index] = fetched.crc
        return (self._check(),) if len(self._crcs) == len(self._spans) else ()

    def _check(self) -> CheckFile:
        lengths = [span.length for span in self._spans]
        crc = crc64_of_parts([self._crcs[index] for index in range(len(lengths))], lengths)
        return CheckFile(next_number(), self.copy, self._path, crc)

    def _checked(self, crc: int, match: ContentMatch) -> Iterable[Unit]:
        try:
            good = is_good(match, crc, self._seen, self.copy.url)
        except Unreachable:
            self._discard()  # the next run would trust it
            raise
        if not good:
            self._seen.append(crc)
            self._journal.forget()
            self._crcs = {}
            return self._units({}, self._path)
        os.fchmod(self._file, 0o640)
        put_mark(self._file, self.copy.size, self.copy.etag)
        try:
            self._directory.commit(self._temporary, self.copy.local.name, self._file)
        except FileNotFoundError:
            return self._again()
        self._directory.discard(journal_of(self._temporary))
        self._close()
        self.compared = match.verdict == RIGHT
        return ()

    def _again(self) -> Iterable[Unit]:
        if self._files == MOST_FILES:
            took = f"other processes took each of {MOST_FILES} unfinished files"
            raise TargetRemoved(f"reading {self.copy.url}: {took}")
        self._close()
        self._crcs, self._seen = {}, []
        return self.start()

    def failed(self, error: BaseException) -> Iterable[Unit]:
        """Keeps what was downloaded for the next run, but not on a full disk, which needs the space."""
        if self._is_open:
            if isinstance(error, OSError) or not self.copy.etag:
                self._discard()
                self._directory.undo()
            self._close()
        return ()

    def abandon(self) -> None:
        """Keeps what was downloaded, if the next run can find it by its name."""
        if self._is_open:
            if not self.copy.etag or self._temporary != temporary_of(self.copy):
                self._discard()
                self._directory.undo()
            self._close()

    def _close(self) -> None:
        self._is_open = False
        self._journal.close()
        os.close(self._file)
        self._directory.close()
