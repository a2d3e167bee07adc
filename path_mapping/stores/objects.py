"""Objects, their files and the checksums that OBS states, as values. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

CRC64_HEADERS = ("x-obs-checksum-crc64ecma", "x-amz-checksum-crc64ecma", "x-obs-hash-crc64ecma")
_CRC64_NAMES = tuple(name.encode("ascii") for name in CRC64_HEADERS)
_CRC = re.compile(rb"[0-9]{1,20}")
_MD5 = re.compile(r"[0-9a-f]{32}")
_MD5_OF_PARTS = re.compile(r"([0-9a-f]{32})-([1-9]\d{0,4})")
_MIB = 1 << 20
# The defaults of tools and SDKs for S3 and OBS, in MiB; beside them all powers of two up to 5 GiB.
_USUAL_PARTS = (5, 6, 7, 9, 10, 12, 15, 20, 24, 25, 48, 50, 80, 96, 100, 120, 192, 200, 250, 500, 1000, 5120)


class Checksums(NamedTuple):
    """The best stated checksum of some content: a CRC-64, else an MD5 (hex), else an ETag of parts.

    `etag` is made of the MD5s of parts, and `part_sizes` are the sizes in bytes that these may have. Without
    any of them nothing is known about the content.
    """

    crc64: int | None = None
    md5: str | None = None
    etag: str = ""
    part_sizes: tuple[int, ...] = ()

    @classmethod
    def stated(cls, headers: Mapping[bytes, bytes], size: int = 0) -> Checksums:
        """Reads the checksum in the headers of a response for an object of `size` bytes.

        The ETag of an encrypted object only looks like an MD5 (OBS API reference, server-side encryption),
        and that of an appendable object need not be the MD5 of the whole.
        """
        for name in _CRC64_NAMES:
            text = headers.get(name)
            if text is not None and _CRC.fullmatch(text):
                return cls(crc64=int(text))
        misleading = any(
            b"server-side-encryption" in name or (name.endswith(b"object-type") and value == b"Appendable")
            for name, value in headers.items()
        )
        return cls() if misleading else cls.of_etag(headers.get(b"etag", b"").decode("latin-1"), size)

    @classmethod
    def of_etag(cls, etag: str, size: int) -> Checksums:
        """Reads the checksum in an ETag, which is not that of an encrypted or appendable object."""
        sizes = part_sizes_of(etag, size)
        return cls(md5=md5_of_etag(etag), etag=etag.strip('"').lower() if sizes else "", part_sizes=sizes)

    @property
    def kind(self) -> str:
        """Name of the checksum in errors; empty if there is none."""
        if self.crc64 is not None:
            return "CRC-64"
        return "MD5" if self.md5 is not None else "ETag" if self.etag else ""


class ObjectState(NamedTuple):
    """An object's size in bytes, and its modification time in nanoseconds since the epoch.

    `version` changes when the object is replaced, and is empty if the store has none.
    """

    size: int
    mtime_ns: int
    version: str = ""
    sums: Checksums = Checksums()


class StoredObject(NamedTuple):
    """An object of a listing.

    `size` is in bytes, `md5` in hex if the listing has it, `etag` exactly as the store returned it. A listing
    does not mark encrypted objects, whose ETag only looks like an MD5: it does not prove that content is
    wrong, unlike the checks of `Store.read`.
    """

    key: str
    size: int
    md5: str | None
    etag: str = ""


class Copy(NamedTuple):
    """A file to copy: the local path, which is inside `root`, and the object.

    Paths are text, which takes a tenth of the time of a `Path`: there may be a million copies.

    `etag` is the object's, as it was listed; `route` is the index of the route. `mtime_ns` is the time at
    which a file to upload was modified, in nanoseconds.
    """

    path: str
    root: str
    bucket: str
    key: str
    size: int
    etag: str = ""
    route: int = 0
    mtime_ns: int = 0

    @property
    def local(self) -> Path:
        """The local path."""
        return Path(self.path)

    @property
    def url(self) -> str:
        """The object's URL."""
        return f"obs://{self.bucket}/{self.key}"


def md5_of_etag(etag: str | None) -> str | None:
    """Returns the MD5 in an ETag; None for that of a multipart upload (`...-3`), which is none."""
    text = (etag or "").strip('"').lower()
    return text if len(text) == 32 and _MD5.fullmatch(text) else None


def part_sizes_of(etag: str, size: int) -> tuple[int, ...]:
    """Returns the possible sizes of an object's parts, in bytes; none if it has no parts.

    The usual sizes come first, then the smallest possible one rounded up to MiB, and the smallest itself:
    some tools choose them by the size of the file.
    """
    parts = _MD5_OF_PARTS.fullmatch(etag.strip('"').lower())
    count = int(parts[2]) if parts else 0
    if count <= 1:
        return (max(size, 1),) if count else ()
    least = math.ceil(size / count)
    usual = sorted({*_USUAL_PARTS, *(1 << power for power in range(13))})
    candidates = [*(mib * _MIB for mib in usual), math.ceil(least / _MIB) * _MIB, least]
    return tuple(part for part in dict.fromkeys(candidates) if part and math.ceil(size / part) == count)
