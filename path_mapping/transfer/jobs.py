"""The files of a transfer as jobs: the units that each takes, and what follows from their results."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from path_mapping.errors import Unreachable
from path_mapping.localfs import CHANGED_ATTEMPTS, FileChanged, FileState, state_of
from path_mapping.planning import BegunUploads, Copy
from path_mapping.stores import (
    BeginParts,
    EndParts,
    MultipartUpload,
    PutFile,
    PutPart,
    Store,
    StoredContent,
    StoredFile,
    Unit,
)
from path_mapping.transfer.parts import Span, part_size, parts_that_count, spans

Number = Callable[[], int]
ByLength = Callable[[Copy], None]  # called with each complete file that was compared by its length only


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

    def cleaned(self, unit: Unit) -> None:
        """Takes note that a unit of `failed` has succeeded."""
        return

    def abandon(self) -> None:
        """Releases what the job holds, when the transfer ends before it: no more units are run."""
        return


def as_sent(copy: Copy, stored: StoredFile) -> Copy:
    """The file in the state in which it was sent, with the ETag of its object."""
    return copy._replace(size=stored.size, mtime_ns=stored.mtime_ns, etag=stored.etag)


class SmallUpload(Job):
    """A file that is uploaded by one request; `checked` sends its MD5 along.

    `settled`: only if it is as it was listed. Afterwards `copy` is what was sent.
    """

    def __init__(self, copy: Copy, number: Number, checked: bool, settled: bool, by_length: ByLength) -> None:
        self.copy = copy
        self._by_length = by_length
        path = copy.path
        self._unit = PutFile(
            number(), copy.bucket, copy.key, copy.size, path, checked, copy.mtime_ns, settled
        )

    def begin(self) -> Iterable[Unit]:
        return (self._unit,)

    def proceed(self, unit: Unit, value: Any) -> Iterable[Unit]:
        stored: StoredFile = value
        self.copy = as_sent(self.copy, stored)
        if not stored.compared:
            self._by_length(self.copy)
        return ()


class LargeUpload(Job):
    """A file that is uploaded in parts; parts that an earlier run stored are compared, not sent again.

    `checked` sends the MD5 of each part along. `settled`: only if it is as it was listed. `uploads` notes the
    multipart upload. Afterwards `copy` is what was sent.
    """

    def __init__(
        self,
        copy: Copy,
        number: Number,
        part: int,
        checked: bool,
        settled: bool,
        uploads: BegunUploads,
        by_length: ByLength,
    ) -> None:
        self.copy = copy
        self._number = number
        self._part = part
        self._checked = checked
        self._settled = settled
        self._uploads = uploads
        self._by_length = by_length
        self._attempts = 0
        self._upload = ""
        self._stored: Dict[int, StoredContent] = {}
        self._spans: List[Span] = []
        self._before: Optional[FileState] = None

    def begin(self) -> Iterable[Unit]:
        """Begins the upload of the file in its current state."""
        self._attempts += 1
        self._stored = {}
        before = self._before = state_of(os.stat(self.copy.path))
        if self._settled and (before.size, before.mtime_ns) != (self.copy.size, self.copy.mtime_ns):
            raise FileChanged("the file changed after it was listed")
        part = part_size(self._before.size, self._part)
        self._spans = spans(self._before.size, part) or [Span(0, 0)]  # it has been emptied
        left = self._uploads.take(self.copy.bucket, self.copy.key)
        return (BeginParts(self._number(), self.copy.bucket, self.copy.key, left),)

    def proceed(self, unit: Unit, value: Any) -> Iterable[Unit]:
        """First the parts, after the last of them the end."""
        if isinstance(unit, BeginParts):
            begun: MultipartUpload = value
            self._upload = begun.upload
            for gone in set(unit.left) - {begun.upload}:
                self._uploads.ended(gone)
            self._uploads.begun(unit.bucket, unit.key, begun.upload)
            return self._parts(begun)
        if isinstance(unit, PutPart):
            self._stored[unit.part] = value
            return (self._end(),) if len(self._stored) == len(self._spans) else ()
        assert isinstance(unit, EndParts)
        self._upload = ""
        self._uploads.ended(unit.upload)
        if unit.etags and value is not None:
            before = self._before
            assert before is not None
            self.copy = as_sent(self.copy, StoredFile(value, before.size, before.mtime_ns, unit.compared))
            if not unit.compared:
                self._by_length(self.copy)
            return ()
        if self._attempts == CHANGED_ATTEMPTS:
            if unit.etags:
                raise Unreachable(f"writing {self.copy.url}: each of {CHANGED_ATTEMPTS} uploads has gone")
            raise FileChanged(f"the file changed during each of {CHANGED_ATTEMPTS} uploads")
        return self.begin()

    def _parts(self, begun: MultipartUpload) -> Iterator[Unit]:
        path, known = self.copy.path, parts_that_count(begun.parts, self._spans)
        for number, (span, etag) in enumerate(zip(self._spans, known), start=1):
            yield PutPart(
                self._number(), self.copy.bucket, self.copy.key, begun.upload, number, *span, path, etag,
                self._checked,
            )  # fmt: skip

    def _end(self) -> EndParts:
        """Completes the upload; if the file has changed meanwhile, aborts it, to begin again."""
        assert self._before is not None
        etags: Tuple[str, ...] = ()
        if state_of(os.stat(self.copy.path)) == self._before:
            etags = tuple(self._stored[number].etag for number in sorted(self._stored))
        compared = all(stored.compared for stored in self._stored.values())
        return EndParts(
            self._number(), self.copy.bucket, self.copy.key, self._upload, self._before.size, etags, compared
        )

    def failed(self, error: BaseException) -> Iterable[Unit]:
        """Aborts the upload: its parts would cost money. What cannot be aborted, the next run aborts."""
        if not self._upload:
            return ()
        upload, self._upload = self._upload, ""
        return (EndParts(self._number(), self.copy.bucket, self.copy.key, upload, self.copy.size, ()),)

    def cleaned(self, unit: Unit) -> None:
        """The upload is aborted."""
        assert isinstance(unit, EndParts)
        self._uploads.ended(unit.upload)


def upload_job(
    copy: Copy,
    number: Number,
    store: Store,
    checked: bool,
    settled: bool,
    uploads: BegunUploads,
    by_length: ByLength,
) -> Job:
    """The job for a file that goes to the store: in parts if it is large."""
    if copy.size >= store.multipart_from:
        return LargeUpload(copy, number, store.part, checked, settled, uploads, by_length)
    return SmallUpload(copy, number, checked, settled, by_length)
