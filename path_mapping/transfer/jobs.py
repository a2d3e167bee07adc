"""The files of a transfer, each as the units it takes and what follows when they are done."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import Callable, Dict, Iterable, Iterator, List, Optional, Protocol, Tuple

from path_mapping.errors import Unreachable
from path_mapping.localfs import (
    CHANGED_ATTEMPTS,
    TEMPORARY,
    PartJournal,
    State,
    TargetDir,
    allocate,
    crc64_of_parts,
    is_locked,
    put_mark,
    state_of,
    stem_of,
)
from path_mapping.planning import Copy
from path_mapping.stores.units import (
    BeginParts,
    Begun,
    EndParts,
    GetFile,
    GetRange,
    Outcome,
    Parted,
    PutFile,
    PutPart,
    Ranged,
    Unit,
)
from path_mapping.transfer.parts import RANGE, Span, identity, part_size, parts_that_count, spans

Number = Callable[[], int]


class Job(Protocol):
    """One file. Methods raise `OSError` and `PathMappingError`; the file has failed then."""

    copy: Copy

    def begin(self) -> Iterable[Unit]:
        """What to do first; taken bit by bit."""

    def took(self, unit: Unit, outcome: Outcome) -> Iterable[Unit]:
        """What to do after a unit has ended well: nothing more at all, and the file is done."""

    def failed(self, error: BaseException) -> Iterable[Unit]:
        """What to do before the file is left alone."""


class Single:
    """A file that is one unit."""

    def __init__(self, copy: Copy, unit: Unit) -> None:
        self.copy = copy
        self._unit = unit

    def begin(self) -> Iterable[Unit]:
        """The unit."""
        return (self._unit,)

    def took(self, unit: Unit, outcome: Outcome) -> Iterable[Unit]:
        """Nothing."""
        return ()

    def failed(self, error: BaseException) -> Iterable[Unit]:
        """Nothing: a unit leaves nothing half."""
        return ()


def get_small(copy: Copy, number: Number) -> Single:
    """A file that is fetched by one request."""
    return Single(
        copy, GetFile(number(), copy.bucket, copy.key, copy.size, os.fspath(copy.local), os.fspath(copy.root))
    )


def put_small(copy: Copy, number: Number, checked: bool) -> Single:
    """A file that is stored by one request."""
    return Single(copy, PutFile(number(), copy.bucket, copy.key, copy.size, os.fspath(copy.local), checked))


def temporary_of(copy: Copy) -> str:
    """The name of the unfinished file of a download in ranges: a later run finds it again."""
    version = identity(copy.bucket, copy.key, copy.etag, copy.size, part_size(copy.size, RANGE))
    return f".{stem_of(copy.local.name)}.{version}{TEMPORARY}"


def journal_of(temporary: str) -> str:
    """The name of the journal of an unfinished file."""
    return temporary[: -len(TEMPORARY)] + ".parts" + TEMPORARY


class GetLarge:
    """A file that is fetched in ranges, into an unfinished file that a later run takes up."""

    def __init__(self, copy: Copy, number: Number) -> None:
        self.copy = copy
        self._number = number
        self._part = part_size(copy.size, RANGE)
        self._spans = spans(copy.size, self._part)
        self._crcs: Dict[int, int] = {}
        self._whole: Optional[int] = None
        self._again = False
        self._is_open = False

    def begin(self) -> Iterator[Unit]:
        """Each range, with what the journal says of it."""
        directory, root = os.fspath(self.copy.local.parent), os.fspath(self.copy.root)
        self._folder = TargetDir(directory, root)
        try:
            known = self._open()
        except BaseException:
            self._folder.undo()
            self._folder.close()
            raise
        self._is_open = True
        return self._units(known)

    def _open(self) -> Dict[int, int]:
        """Takes up what an earlier run left; what another run works on right now is left to it."""
        handle, name = self._folder.handle, temporary_of(self.copy)
        if not self.copy.etag or is_locked(os.path.join(self._folder.path, name), missing=False):
            name, self._file = self._folder.create(self.copy.local.name)
        else:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(name, flags, 0o640, dir_fd=handle)
            with suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._temporary = name
        try:
            self._journal = PartJournal(journal_of(name), handle)
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
        """What the journal says of a file that has its size already; else that is given to it now."""
        if os.fstat(self._file).st_size == self.copy.size:
            return self._journal.known()
        self._journal.forget()
        allocate(self._file, self.copy.size)
        return {}

    def _discard(self) -> None:
        self._folder.discard(self._temporary)
        self._folder.discard(journal_of(self._temporary))

    def _units(self, known: Dict[int, int]) -> Iterator[Unit]:
        copy, path = self.copy, os.path.join(self._folder.path, self._temporary)
        for index, span in enumerate(self._spans):
            yield GetRange(
                self._number(), copy.bucket, copy.key, copy.etag, copy.size, *span, path, known.get(index)
            )

    def took(self, unit: Unit, outcome: Outcome) -> Iterable[Unit]:
        """Notes the range; after the last one the file moves into its place."""
        assert isinstance(unit, GetRange)
        ranged: Ranged = outcome.value
        index = unit.offset // self._part
        if not ranged.kept:
            self._journal.note(index, ranged.crc)
        self._crcs[index] = ranged.crc
        self._whole = ranged.whole if ranged.whole is not None else self._whole
        if len(self._crcs) < len(self._spans):
            return ()
        return self._finish()

    def _finish(self) -> Iterable[Unit]:
        lengths = [span.length for span in self._spans]
        crc = crc64_of_parts([self._crcs[index] for index in range(len(lengths))], lengths)
        if self._whole is not None and crc != self._whole:
            if self._again:
                wanted = f"in OBS the CRC-64 is {self._whole}, here {crc}"
                raise Unreachable(f"reading {self.copy.url}: {wanted}")
            self._again = True
            self._journal.forget()
            self._crcs = {}
            return self._units({})
        os.fchmod(self._file, 0o640)
        put_mark(self._file, self.copy.size, self.copy.etag)
        self._folder.settle(self._temporary, self.copy.local.name)
        self._folder.discard(journal_of(self._temporary))
        self._close()
        return ()

    def failed(self, error: BaseException) -> Iterable[Unit]:
        """What was fetched stays for the next run, but for a full disk, which needs the space."""
        if self._is_open:
            if isinstance(error, OSError) or not self.copy.etag:
                self._discard()
                self._folder.undo()
            self._close()
        return ()

    def _close(self) -> None:
        self._is_open = False
        self._journal.close()
        os.close(self._file)
        self._folder.close()


class PutLarge:
    """A file that is stored in parts; parts that an earlier run stored are compared, not sent again."""

    def __init__(self, copy: Copy, number: Number, part: int) -> None:
        self.copy = copy
        self._number = number
        self._part = part
        self._attempts = 0
        self._upload = ""
        self._etags: Dict[int, str] = {}
        self._spans: List[Span] = []
        self._before: Optional[State] = None

    def begin(self) -> Iterable[Unit]:
        """Begins the upload, of the file as it is now."""
        self._attempts += 1
        self._etags = {}
        self._before = state_of(os.stat(self.copy.local))
        part = part_size(self._before.size, self._part)
        self._spans = spans(self._before.size, part) or [Span(0, 0)]  # it became empty
        return (BeginParts(self._number(), self.copy.bucket, self.copy.key, part, self._before.size),)

    def took(self, unit: Unit, outcome: Outcome) -> Iterable[Unit]:
        """After the beginning the parts, after the last part the end."""
        if isinstance(unit, BeginParts):
            begun: Begun = outcome.value
            self._upload = begun.upload
            return self._parts(begun)
        if isinstance(unit, PutPart):
            parted: Parted = outcome.value
            self._etags[unit.part] = parted.etag
            return (self._end(),) if len(self._etags) == len(self._spans) else ()
        assert isinstance(unit, EndParts)
        self._upload = ""
        if unit.etags:
            return ()
        if self._attempts == CHANGED_ATTEMPTS:
            raise OSError(f"it changed during each of {CHANGED_ATTEMPTS} uploads")
        return self.begin()

    def _parts(self, begun: Begun) -> Iterator[Unit]:
        path, known = os.fspath(self.copy.local), parts_that_count(begun.parts, self._spans)
        for number, (span, etag) in enumerate(zip(self._spans, known), start=1):
            yield PutPart(
                self._number(), self.copy.bucket, self.copy.key, begun.upload, number, *span, path, etag
            )

    def _end(self) -> EndParts:
        """The parts as one object; a file that changed meanwhile is given up, to begin anew."""
        etags: Tuple[str, ...] = tuple(self._etags[number] for number in sorted(self._etags))
        if self._changed():
            etags = ()
        assert self._before is not None
        return EndParts(
            self._number(), self.copy.bucket, self.copy.key, self._upload, self._before.size, etags
        )

    def _changed(self) -> bool:
        return state_of(os.stat(self.copy.local)) != self._before

    def failed(self, error: BaseException) -> Iterable[Unit]:
        """The parts are given up: nothing is left behind that costs and that nobody sees."""
        if not self._upload:
            return ()
        upload, self._upload = self._upload, ""
        return (EndParts(self._number(), self.copy.bucket, self.copy.key, upload, self.copy.size, ()),)
