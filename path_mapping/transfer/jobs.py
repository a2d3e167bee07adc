"""Files of a transfer as jobs, which yield units and react to their results."""

from __future__ import annotations

import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from path_mapping.errors import Unreachable
from path_mapping.localfs.source_file import CHANGED_ATTEMPTS, FileChanged, FileState, state_of
from path_mapping.planning.record import BegunUploads
from path_mapping.stores.objects import Copy
from path_mapping.stores.store import Store
from path_mapping.stores.units import (
    BeginParts,
    EndParts,
    MultipartUpload,
    PutFile,
    PutPart,
    StoredContent,
    StoredFile,
    Unit,
)
from path_mapping.transfer.parts import Span, part_size, parts_that_count, spans

# The number of a unit, unique in this process.
next_number = itertools.count().__next__


class Job(ABC):
    """A file that is being moved.

        start --> units --result of a unit--> proceed --> more units --> none left: the file is complete
                    |
                    +--an error--> failed --> units that clean up --> cleaned --> the file has failed

    The methods raise `PathMappingError` or `OSError` if the file has failed. `abandon` ends a job.

    `listed` is the file as it was listed, `copy` as it was moved. `compared`: its content was compared by a
    checksum, not only by its length.
    """

    def __init__(self, copy: Copy) -> None:
        self.listed = self.copy = copy
        self.compared = True

    @abstractmethod
    def start(self) -> Iterable[Unit]:
        """Returns the first units; an iterator is read only as far as there are workers."""

    def proceed(self, unit: Unit, value: Any) -> Iterable[Unit]:
        """Returns the units that follow from the result of a unit."""
        return ()

    def failed(self, error: BaseException) -> Iterable[Unit]:
        """Returns the units that clean up after a failure."""
        return ()

    def cleaned(self, unit: Unit) -> None:
        """Notes that a unit of `failed` has succeeded."""
        return

    def abandon(self) -> None:
        """Releases files and directories when the transfer ends before the job: no more units are run."""
        return


class FileUpload(Job):
    """A file that is uploaded; `checked` sends MD5s along. `settled`: only if it has not changed."""

    def __init__(self, copy: Copy, checked: bool, settled: bool) -> None:
        super().__init__(copy)
        self._checked = checked
        self._settled = settled

    def _note(self, stored: StoredFile) -> None:
        """Notes the state in which the file was sent, with the ETag of its object."""
        self.copy = self.copy._replace(size=stored.size, mtime_ns=stored.mtime_ns, etag=stored.etag)
        self.compared = stored.compared


class SmallUpload(FileUpload):
    """A file that is uploaded by one request."""

    def start(self) -> Iterable[Unit]:
        return (PutFile(next_number(), self.copy, self._checked, self._settled),)

    def proceed(self, unit: Unit, value: Any) -> Iterable[Unit]:
        self._note(value)
        return ()


class LargeUpload(FileUpload):
    """A file that is uploaded in parts; parts that an earlier run stored are compared, not sent again.

    `uploads` notes the multipart upload.
    """

    def __init__(self, copy: Copy, checked: bool, settled: bool, *, part: int, uploads: BegunUploads) -> None:
        super().__init__(copy, checked, settled)
        self._part = part
        self._uploads = uploads
        self._attempts = 0
        self._upload = ""
        self._stored: dict[int, StoredContent] = {}
        self._spans: list[Span] = []
        self._before = FileState(copy.size, copy.mtime_ns, inode=0)

    def start(self) -> Iterable[Unit]:
        """Starts the upload of the file in its current state."""
        self._attempts += 1
        self._stored = {}
        before = self._before = state_of(os.stat(self.copy.path))
        if self._settled and (before.size, before.mtime_ns) != (self.copy.size, self.copy.mtime_ns):
            raise FileChanged("the file changed after it was listed")
        part = part_size(before.size, self._part)
        self._spans = spans(before.size, part) or [Span(0, 0)]  # it has been emptied
        left = self._uploads.take(self.copy.bucket, self.copy.key)
        return (BeginParts(next_number(), self.copy, left),)

    def proceed(self, unit: Unit, value: Any) -> Iterable[Unit]:
        """Sends the parts, and after the last one completes the upload."""
        if isinstance(unit, BeginParts):
            begun: MultipartUpload = value
            self._upload = begun.upload
            for gone in set(unit.left) - {begun.upload}:
                self._uploads.ended(gone)
            self._uploads.begun(self.copy.bucket, self.copy.key, begun.upload)
            return self._parts(begun)
        if isinstance(unit, PutPart):
            self._stored[unit.part] = value
            return (self._end(),) if len(self._stored) == len(self._spans) else ()
        assert isinstance(unit, EndParts)
        self._upload = ""
        self._uploads.ended(unit.upload)
        if unit.etags and value is not None:
            self._note(StoredFile(value, self._before.size, self._before.mtime_ns, unit.compared))
            return ()
        if self._attempts == CHANGED_ATTEMPTS:
            if unit.etags:
                raise Unreachable(f"writing {self.copy.url}: each of {CHANGED_ATTEMPTS} uploads has gone")
            raise FileChanged(f"the file changed during each of {CHANGED_ATTEMPTS} uploads")
        return self.start()

    def _parts(self, begun: MultipartUpload) -> Iterator[Unit]:
        known = parts_that_count(begun.parts, self._spans)
        for number, (span, etag) in enumerate(zip(self._spans, known), start=1):
            yield PutPart(
                next_number(),
                self.copy,
                begun.upload,
                part=number,
                offset=span.offset,
                length=span.length,
                known=etag,
                checked=self._checked,
            )

    def _end(self) -> EndParts:
        """Completes the upload; aborts it if the file has changed meanwhile, to begin again."""
        etags: tuple[str, ...] = ()
        if state_of(os.stat(self.copy.path)) == self._before:
            etags = tuple(self._stored[number].etag for number in sorted(self._stored))
        compared = all(stored.compared for stored in self._stored.values())
        size = self._before.size
        return EndParts(next_number(), self.copy, self._upload, size=size, etags=etags, compared=compared)

    def failed(self, error: BaseException) -> Iterable[Unit]:
        """Aborts the upload, whose parts would cost money; if that fails, the next run aborts it."""
        if not self._upload:
            return ()
        upload, self._upload = self._upload, ""
        return (EndParts(next_number(), self.copy, upload, size=0, etags=()),)

    def cleaned(self, unit: Unit) -> None:
        """Notes that the upload is aborted."""
        assert isinstance(unit, EndParts)
        self._uploads.ended(unit.upload)


def upload_job(
    copy: Copy, store: Store, *, checked: bool, settled: bool, uploads: BegunUploads
) -> FileUpload:
    """Returns the job that uploads a file: in parts if it is large."""
    if copy.size >= store.multipart_from:
        return LargeUpload(copy, checked, settled, part=store.part, uploads=uploads)
    return SmallUpload(copy, checked, settled)
