"""The files of a transfer as jobs: the units that each takes, and what follows from their results."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from path_mapping.errors import Unreachable
from path_mapping.localfs import (
    CHANGED_ATTEMPTS,
    TEMPORARY,
    FileState,
    PartJournal,
    TargetDir,
    allocate,
    crc64_of_parts,
    is_locked,
    put_mark,
    state_of,
    stem_of,
)
from path_mapping.planning import Copy
from path_mapping.stores import (
    BeginParts,
    EndParts,
    FetchedRange,
    GetFile,
    GetRange,
    MultipartUpload,
    PutFile,
    PutPart,
    Unit,
)
from path_mapping.transfer.parts import RANGE, Span, identity, part_size, parts_that_count, spans

Number = Callable[[], int]


class Job(ABC):
    """One file.

    A job is asked for units, and for more of them with each result, until it has no more: then the file is
    complete. Its methods raise `PathMappingError` or `OSError` if the file has failed.
    """

    copy: Copy

    @abstractmethod
    def begin(self) -> Iterable[Unit]:
        """The first units; an iterator is read only as far as there are workers."""

    def proceed(self, unit: Unit, value: Any) -> Iterable[Unit]:
        """The units that follow from the result of a unit."""
        return ()

    def failed(self, error: BaseException) -> Iterable[Unit]:
        """The units that clean up after a failure, of the file or of the whole job."""
        return ()


class SingleUnit(Job):
    """A file that one unit moves, which leaves nothing unfinished behind."""

    def __init__(self, copy: Copy, unit: Unit) -> None:
        self.copy = copy
        self._unit = unit

    def begin(self) -> Iterable[Unit]:
        return (self._unit,)


def small_download(copy: Copy, number: Number) -> Job:
    """A file that is downloaded by one request."""
    unit = GetFile(number(), copy.bucket, copy.key, copy.size, os.fspath(copy.local), os.fspath(copy.root))
    return SingleUnit(copy, unit)


def small_upload(copy: Copy, number: Number, checked: bool) -> Job:
    """A file that is uploaded by one request; `checked` sends its MD5 along."""
    unit = PutFile(number(), copy.bucket, copy.key, copy.size, os.fspath(copy.local), checked)
    return SingleUnit(copy, unit)


def temporary_of(copy: Copy) -> str:
    """The name of the temporary file of a large download, by which a later run finds it."""
    version = identity(copy.bucket, copy.key, copy.etag, copy.size, part_size(copy.size, RANGE))
    return f".{stem_of(copy.local.name)}.{version}{TEMPORARY}"


def journal_of(temporary: str) -> str:
    """The name of the journal of a temporary file."""
    return temporary[: -len(TEMPORARY)] + ".parts" + TEMPORARY


class LargeDownload(Job):
    """A file that is downloaded in ranges, to a temporary file that a later run resumes."""

    def __init__(self, copy: Copy, number: Number) -> None:
        self.copy = copy
        self._number = number
        self._part = part_size(copy.size, RANGE)
        self._spans = spans(copy.size, self._part)
        self._crcs: Dict[int, int] = {}
        self._whole: Optional[int] = None
        self._again = False
        self._is_open = False

    def begin(self) -> Iterable[Unit]:
        directory, root = os.fspath(self.copy.local.parent), os.fspath(self.copy.root)
        self._directory = TargetDir(directory, root)
        try:
            known = self._open()
        except BaseException:
            self._directory.undo()
            self._directory.close()
            raise
        self._is_open = True
        return self._units(known)

    def _open(self) -> Dict[int, int]:
        """Opens the temporary file of an earlier run, or a new one if another run is working on that."""
        name = temporary_of(self.copy)
        if not self.copy.etag or is_locked(os.path.join(self._directory.path, name), missing=False):
            name, self._file = self._directory.create(self.copy.local.name)
        else:
            self._file = self._directory.resume(name)
        self._temporary = name
        try:
            self._journal = PartJournal(journal_of(name), self._directory.handle)
            try:
                return self._known()
            except BaseException:
                self._journal.close()
                raise
        except BaseException:
            self._discard()
            os.close(self._file)
            raise

    def _known(self) -> Dict[int, int]:
        """The journal of a file that has its full size; any other file gets that now, and has no journal."""
        if os.fstat(self._file).st_size == self.copy.size:
            return self._journal.known()
        self._journal.forget()
        allocate(self._file, self.copy.size)
        return {}

    def _discard(self) -> None:
        self._directory.discard(self._temporary)
        self._directory.discard(journal_of(self._temporary))

    def _units(self, known: Dict[int, int]) -> Iterator[Unit]:
        copy, path = self.copy, os.path.join(self._directory.path, self._temporary)
        for index, span in enumerate(self._spans):
            yield GetRange(
                self._number(), copy.bucket, copy.key, copy.etag, copy.size, *span, path, known.get(index)
            )

    def proceed(self, unit: Unit, value: Any) -> Iterable[Unit]:
        """Notes the range; after the last one the file moves into its place."""
        assert isinstance(unit, GetRange)
        fetched: FetchedRange = value
        index = unit.offset // self._part
        if not fetched.kept:
            self._journal.note(index, fetched.crc)
        self._crcs[index] = fetched.crc
        self._whole = fetched.whole if fetched.whole is not None else self._whole
        if len(self._crcs) < len(self._spans):
            return ()
        return self._finish()

    def _finish(self) -> Iterable[Unit]:
        lengths = [span.length for span in self._spans]
        crc = crc64_of_parts([self._crcs[index] for index in range(len(lengths))], lengths)
        if self._whole is not None and crc != self._whole:
            if self._again:
                wanted = f"the CRC-64 in OBS is {self._whole}, here it is {crc}"
                raise Unreachable(f"reading {self.copy.url}: {wanted}")
            self._again = True
            self._journal.forget()
            self._crcs = {}
            return self._units({})
        os.fchmod(self._file, 0o640)
        put_mark(self._file, self.copy.size, self.copy.etag)
        self._directory.settle(self._temporary, self.copy.local.name)
        self._directory.discard(journal_of(self._temporary))
        self._close()
        return ()

    def failed(self, error: BaseException) -> Iterable[Unit]:
        """Keeps what was downloaded for the next run, but not on a full disk, which needs the space."""
        if self._is_open:
            if isinstance(error, OSError) or not self.copy.etag:
                self._discard()
                self._directory.undo()
            self._close()
        return ()

    def _close(self) -> None:
        self._is_open = False
        self._journal.close()
        os.close(self._file)
        self._directory.close()


class LargeUpload(Job):
    """A file that is uploaded in parts; parts that an earlier run stored are compared, not sent again."""

    def __init__(self, copy: Copy, number: Number, part: int) -> None:
        self.copy = copy
        self._number = number
        self._part = part
        self._attempts = 0
        self._upload = ""
        self._etags: Dict[int, str] = {}
        self._spans: List[Span] = []
        self._before: Optional[FileState] = None

    def begin(self) -> Iterable[Unit]:
        """Begins the upload of the file in its current state."""
        self._attempts += 1
        self._etags = {}
        self._before = state_of(os.stat(self.copy.local))
        part = part_size(self._before.size, self._part)
        self._spans = spans(self._before.size, part) or [Span(0, 0)]  # it has been emptied
        return (BeginParts(self._number(), self.copy.bucket, self.copy.key),)

    def proceed(self, unit: Unit, value: Any) -> Iterable[Unit]:
        """First the parts, after the last of them the end."""
        if isinstance(unit, BeginParts):
            begun: MultipartUpload = value
            self._upload = begun.upload
            return self._parts(begun)
        if isinstance(unit, PutPart):
            self._etags[unit.part] = value
            return (self._end(),) if len(self._etags) == len(self._spans) else ()
        assert isinstance(unit, EndParts)
        self._upload = ""
        if unit.etags:
            return ()
        if self._attempts == CHANGED_ATTEMPTS:
            raise OSError(f"the file changed during each of {CHANGED_ATTEMPTS} uploads")
        return self.begin()

    def _parts(self, begun: MultipartUpload) -> Iterator[Unit]:
        path, known = os.fspath(self.copy.local), parts_that_count(begun.parts, self._spans)
        for number, (span, etag) in enumerate(zip(self._spans, known), start=1):
            yield PutPart(
                self._number(), self.copy.bucket, self.copy.key, begun.upload, number, *span, path, etag
            )

    def _end(self) -> EndParts:
        """Completes the upload; if the file has changed meanwhile, aborts it, to begin again."""
        assert self._before is not None
        etags: Tuple[str, ...] = ()
        if state_of(os.stat(self.copy.local)) == self._before:
            etags = tuple(self._etags[number] for number in sorted(self._etags))
        return EndParts(
            self._number(), self.copy.bucket, self.copy.key, self._upload, self._before.size, etags
        )

    def failed(self, error: BaseException) -> Iterable[Unit]:
        """Aborts the upload: its parts would cost money, and no listing shows them."""
        if not self._upload:
            return ()
        upload, self._upload = self._upload, ""
        return (EndParts(self._number(), self.copy.bucket, self.copy.key, upload, self.copy.size, ()),)
