"""Units of a transfer: its requests as values that can be sent to another process. Pure.

Each has a `number`, which identifies its outcome, and the `copy` to which it belongs. Sizes, offsets and
lengths are in bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Callable, NamedTuple, Union

from path_mapping.stores.objects import Copy


class GetFile(NamedTuple):
    """Download an object to its path, completely or not at all: the result is a `ContentMatch`.

    If the match is `UNSURE`, the file is dropped, unless its CRC-64 is in `seen`, those of earlier readings.
    """

    number: int
    copy: Copy
    seen: tuple[int, ...] = ()


class GetRange(NamedTuple):
    """Download a range of an object to the same place in the file at `path`: the result is a `FetchedRange`.

    It is None if the file has gone: another process has moved or removed it. `known` is the CRC-64 that an
    earlier run noted for this range: if the file still has it, nothing is downloaded.
    """

    number: int
    copy: Copy
    path: str
    offset: int
    length: int
    known: int | None


class CheckFile(NamedTuple):
    """Compare the file at `path` with the checksum of the object: the result is a `ContentMatch`.

    It is None if the file has gone. `crc` is the file's CRC-64.
    """

    number: int
    copy: Copy
    path: str
    crc: int


class PutFile(NamedTuple):
    """Upload a file, completely or not at all: the result is a `StoredFile`.

    `checked` sends its MD5 along. `settled`: only if its size and modification time are still those of the
    copy.
    """

    number: int
    copy: Copy
    checked: bool
    settled: bool = False


class BeginParts(NamedTuple):
    """Begin a multipart upload: the result is a `MultipartUpload`.

    `left` are uploads of earlier runs of this output, the oldest first: the last one is resumed, the others
    are aborted.
    """

    number: int
    copy: Copy
    left: tuple[str, ...]


class PutPart(NamedTuple):
    """Upload a range of a file as a part: the result is a `StoredContent`.

    `known` is the ETag of the part that an earlier run stored: if it matches, nothing is sent. `checked`
    sends the part's MD5 along.
    """

    number: int
    copy: Copy
    upload: str
    part: int
    offset: int
    length: int
    known: str
    checked: bool


class EndParts(NamedTuple):
    """Complete a multipart upload of `size` bytes with the parts of these ETags; without any, abort it.

    `compared` is False if these ETags tell nothing about the content of the parts. The result is the ETag of
    the object, which is empty after an abort; None if the upload has gone without having become the object:
    then it must begin anew.
    """

    number: int
    copy: Copy
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
        return unit.copy.size
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
