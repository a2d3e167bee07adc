"""Units of a transfer: its requests as values that can be sent to another process. Pure.

Each has a `number`, which identifies its outcome. Sizes, offsets and lengths are in bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Callable, NamedTuple, Union


class GetFile(NamedTuple):
    """Download an object to `path`, completely or not at all: the result is a `ContentMatch`.

    `root` must contain the file. If the match is `UNSURE`, the file is dropped, unless its CRC-64 is in
    `seen`, those of earlier readings.
    """

    number: int
    bucket: str
    key: str
    size: int
    path: str
    root: str
    seen: tuple[int, ...] = ()


class GetRange(NamedTuple):
    """Download a range of an object to the same place in a file: the result is a `FetchedRange`.

    It is None if the file has gone: another process has moved or removed it.
    `total` is the size of the object, `known` the CRC-64 that an earlier run noted for this range: if the
    file still has it, nothing is downloaded.
    """

    number: int
    bucket: str
    key: str
    etag: str
    total: int
    offset: int
    length: int
    path: str
    known: int | None


class CheckFile(NamedTuple):
    """Compare a file with the checksum of the object: the result is a `ContentMatch`.

    It is None if the file has gone. `crc` is the file's CRC-64.
    """

    number: int
    bucket: str
    key: str
    etag: str
    size: int
    path: str
    crc: int


class PutFile(NamedTuple):
    """Upload a file, completely or not at all: the result is a `StoredFile`.

    `checked` sends its MD5 along. `settled`: only if its size and modification time are still these.
    """

    number: int
    bucket: str
    key: str
    size: int
    path: str
    checked: bool
    mtime_ns: int = 0
    settled: bool = False


class BeginParts(NamedTuple):
    """Begin a multipart upload: the result is a `MultipartUpload`.

    `left` are uploads of earlier runs of this output, the oldest first: the last one is resumed, the others
    are aborted.
    """

    number: int
    bucket: str
    key: str
    left: tuple[str, ...]


class PutPart(NamedTuple):
    """Upload a range of a file as a part: the result is a `StoredContent`.

    `known` is the ETag of the part that an earlier run stored: if it matches, nothing is sent. `checked`
    sends the part's MD5 along.
    """

    number: int
    bucket: str
    key: str
    upload: str
    part: int
    offset: int
    length: int
    path: str
    known: str
    checked: bool


class EndParts(NamedTuple):
    """Complete a multipart upload with the parts of these ETags, or abort it if there are none.

    `compared` is False if these ETags tell nothing about the content of the parts. The result is the ETag of
    the object, which is empty after an abort; None if the upload has gone without having become the object:
    then it must begin anew.
    """

    number: int
    bucket: str
    key: str
    upload: str
    size: int
    etags: tuple[str, ...]
    compared: bool = True


Unit = Union[GetFile, GetRange, CheckFile, PutFile, BeginParts, PutPart, EndParts]


class FetchedRange(NamedTuple):
    """A range on the disk: its CRC-64; `kept` if an earlier run had downloaded it."""

    crc: int
    kept: bool


class StoredContent(NamedTuple):
    """The answer to an upload: its ETag; `compared` if the content was compared by a checksum."""

    etag: str
    compared: bool


class StoredFile(NamedTuple):
    """An uploaded file: the ETag of its object, empty if it is not known, and the file's state as sent.

    `compared`: by a checksum, not only by its length.
    """

    etag: str
    size: int
    mtime_ns: int
    compared: bool


class MultipartUpload(NamedTuple):
    """A multipart upload in progress, and the parts in it: number, size in bytes, ETag."""

    upload: str
    parts: tuple[tuple[int, int, str], ...]


def bytes_of(unit: Unit) -> int:
    """Returns the number of bytes that a unit moves."""
    if isinstance(unit, (GetFile, PutFile)):
        return unit.size
    if isinstance(unit, (GetRange, PutPart)):
        return unit.length
    return 0


class UnitRunner(ABC):
    """Runs units, many at a time, as tasks of one thread (see `waits`)."""

    @abstractmethod
    async def run(self, unit: Unit, moved: Callable[[int], None]) -> Any:
        """Runs a unit and returns its result; `moved` is called with the number of bytes of each piece.

        Raises:
            StoreError: OBS refused or failed.
            OSError: the local disk failed.
            Cancelled: the transfer was cancelled.
        """

    async def given_up(self, unit: Unit, error: Exception) -> Exception:
        """Returns the error to report after the last attempt at a unit; may clean up after the attempts."""
        return error

    def close(self) -> None:
        """Releases connections and file handles, after the last task."""
        return
