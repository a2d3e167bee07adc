"""The pieces of work that a transfer is cut into, as values that can go to another process."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Tuple, Union


class GetFile(NamedTuple):
    """Fetch an object into its file: all of it, verified, or nothing; `root` must contain the file."""

    number: int
    bucket: str
    key: str
    size: int
    path: str
    root: str


class GetRange(NamedTuple):
    """Fetch bytes of an object into the same place of a file; `total` is the object's size.

    `known` is the CRC-64 that an earlier run noted for what it wrote there: if it is still there, nothing is
    fetched. The result is a `Ranged`.
    """

    number: int
    bucket: str
    key: str
    etag: str
    total: int
    offset: int
    length: int
    path: str
    known: Optional[int]


class PutFile(NamedTuple):
    """Store a file, whole or not at all; `checked` sends its MD5 along."""

    number: int
    bucket: str
    key: str
    size: int
    path: str
    checked: bool


class BeginParts(NamedTuple):
    """Begin to store a file in parts, or find how far an earlier run came: the result is a `Begun`."""

    number: int
    bucket: str
    key: str
    part: int
    size: int


class PutPart(NamedTuple):
    """Store bytes of a file as a part; `known` is the ETag of such a part that is there already.

    The result is a `Parted`.
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


class EndParts(NamedTuple):
    """Make one object of the parts, given by their ETags, or with no ETags give the upload up."""

    number: int
    bucket: str
    key: str
    upload: str
    size: int
    etags: Tuple[str, ...]


Unit = Union[GetFile, GetRange, PutFile, BeginParts, PutPart, EndParts]


class Ranged(NamedTuple):
    """A range on the disk: its CRC-64, that of the whole object where the answer had it, and was it there?"""

    crc: int
    whole: Optional[int]
    kept: bool


class Begun(NamedTuple):
    """A multipart upload, and the parts in it: number, size, ETag."""

    upload: str
    parts: Tuple[Tuple[int, int, str], ...]


class Parted(NamedTuple):
    """A part in the store."""

    etag: str
    kept: bool


class Outcome(NamedTuple):
    """What became of a unit: a value, or an error."""

    number: int
    value: Any
    error: Optional[BaseException]
    retries: int


def bytes_of(unit: Unit) -> int:
    """How much a unit moves."""
    if isinstance(unit, (GetFile, PutFile)):
        return unit.size
    if isinstance(unit, (GetRange, PutPart)):
        return unit.length
    return 0


Batch = List[Unit]
