"""What a look at one object finds. Pure."""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple


class ObjectState(NamedTuple):
    """An object's size in bytes, and its modification time in nanoseconds since the epoch.

    `version` changes when the object is replaced, and is empty if the store does not tell. `md5` (hex) and
    `crc64` are those of the content, where the store states them. `part_sizes` are the sizes in bytes that
    its parts may have, where neither is known and `version` is made of the MD5s of parts.
    """

    size: int
    mtime_ns: int
    version: str = ""
    md5: Optional[str] = None
    crc64: Optional[int] = None
    part_sizes: Tuple[int, ...] = ()


class StoredObject(NamedTuple):
    """One object of a listing.

    `size` is in bytes, `md5` in hex if the listing has it, `etag` exactly as the store returned it. A listing
    does not mark encrypted objects, whose ETag only looks like an MD5: content must not be judged by it, that
    is what `Store.read` does.
    """

    key: str
    size: int
    md5: Optional[str]
    etag: str = ""
