"""Reads local files, which may change meanwhile, and computes the checksums that OBS reports.

CRC-64/XZ is computed by liblzma where the system has it (6 GB/s), else by crcmod (0.5 GB/s).
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, NamedTuple, Union

Buffer = Union[bytes, bytearray, memoryview]
Update = Callable[[Buffer, int], int]

# The polynomial of ECMA-182, x^64 + x^62 + ... + 1, lowest bit first.
_REFLECTED = 0xC96C5795D7870F42
_BITS = 64


def new_md5() -> hashlib._Hash:
    """Returns an empty MD5: a checksum against damage, not against an attacker."""
    if sys.version_info < (3, 9):  # noqa: UP036 -- training code may run on 3.7
        return hashlib.md5()
    return hashlib.md5(usedforsecurity=False)  # allowed in FIPS mode, too


def md5_of(pieces: Iterable[bytes | memoryview]) -> str:
    """Returns the MD5 of the pieces in hex, as an ETag has it."""
    digest = new_md5()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def crc64(data: Buffer, before: int = 0) -> int:
    """Returns the CRC-64 of `data` that follows bytes with the CRC-64 `before`."""
    return _fastest()(data, before)


@lru_cache(maxsize=1)
def _fastest() -> Update:
    return by_liblzma() or by_crcmod()


def by_liblzma() -> Update | None:
    """Returns `crc64` by liblzma, which releases the GIL; None if it is not installed."""
    native = load_lzma_crc64("liblzma.so.5")
    if native is None:
        from ctypes import util  # slow to import

        native = load_lzma_crc64(util.find_library("lzma"))
    if native is None:
        return None
    native.restype = ctypes.c_uint64
    native.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64)

    def by_address(data: Buffer, before: int) -> int:
        if isinstance(data, bytes):
            return int(native(data, len(data), before))
        view = memoryview(data)
        if view.readonly or not view.contiguous:  # ctypes gives no address of these: a copy
            return by_address(view.tobytes(), before)
        if not view.nbytes:
            return before
        return int(native(ctypes.addressof(ctypes.c_char.from_buffer(view)), view.nbytes, before))

    return by_address


def load_lzma_crc64(name: str | None) -> Any:
    """Returns the C function of a library of this name; None if there is none."""
    try:
        return ctypes.CDLL(name).lzma_crc64 if name else None
    except (OSError, AttributeError):
        return None


def by_crcmod() -> Update:
    """Returns `crc64` by crcmod, a dependency of the SDK."""
    import crcmod  # type: ignore[import-untyped]

    whole: Callable[[Buffer, int], int] = crcmod.mkCrcFun(
        0x142F0E1EBA9EA3693, rev=True, xorOut=0xFFFFFFFFFFFFFFFF
    )
    return lambda data, before: whole(bytes(data), before)


def crc64_of_parts(crcs: list[int], sizes: list[int]) -> int:
    """Returns the CRC-64 of a file from those of its consecutive parts, and their sizes in bytes."""
    whole = 0
    for crc, size in zip(crcs, sizes):
        whole = _times(_shift(size), whole) ^ crc
    return whole


@lru_cache(maxsize=64)
def _shift(size: int) -> int:
    """Returns x ** (8 * size) modulo the polynomial: the effect of `size` zero bytes on a CRC."""
    power, square = 1 << (_BITS - 1), 1 << (_BITS - 9)  # reflected: 1, and x^8
    while size:
        if size & 1:
            power = _times(square, power)
        square = _times(square, square)
        size >>= 1
    return power


def _times(left: int, right: int) -> int:
    """Returns the product of two reflected polynomials, modulo the CRC's."""
    product = 0
    for bit in range(_BITS - 1, -1, -1):
        if left >> bit & 1:
            product ^= right
        right = right >> 1 ^ (_REFLECTED if right & 1 else 0)
    return product


# Bytes that are read at once.
CHUNK = 1 << 20
# Uploads of a file that changes during each of them, before it fails.
CHANGED_ATTEMPTS = 3


class FileChanged(OSError):
    """The file was written to, or replaced, since its state was read: nothing of it was stored."""


class FileState(NamedTuple):
    """State of a file that changes with every write and replacement."""

    size: int
    mtime_ns: int
    inode: int


def state_of(status: os.stat_result) -> FileState:
    """Returns the state of a file, to compare it before and after an upload."""
    return FileState(status.st_size, status.st_mtime_ns, status.st_ino)


def check_unchanged(file: int, before: FileState | None) -> None:
    """Raises `FileChanged` if an open file is no longer in the state `before`."""
    if before is not None and state_of(os.fstat(file)) != before:
        raise FileChanged("the file changed during its upload")


def chunks(path: Path) -> Iterator[bytes]:
    """Yields the file's content in pieces of `CHUNK` bytes. Raises `OSError`."""
    with path.open("rb") as file:
        yield from iter(lambda: file.read(CHUNK), b"")


class RangeReader:
    """Reads ranges of open files, piece by piece through `buffer`. `check` is called often, and may raise."""

    def __init__(self, buffer: bytearray, check: Callable[[], None]) -> None:
        self._buffer = memoryview(buffer)
        self._check = check

    def pieces(self, file: int, offset: int, size: int) -> Iterator[memoryview]:
        """Yields these bytes of the file, each piece valid until the next; fewer if the file is shorter."""
        end = offset + size
        while offset < end:
            self._check()
            count = os.preadv(file, [self._buffer[: min(len(self._buffer), end - offset)]], offset)
            if not count:
                return
            yield self._buffer[:count]
            offset += count

    def crc_of(self, file: int, offset: int, size: int) -> int:
        """Returns the CRC-64 of a range."""
        crc = 0
        for piece in self.pieces(file, offset, size):
            crc = crc64(piece, crc)
        return crc

    def md5_of(self, file: int, offset: int, size: int) -> str:
        """Returns the MD5 of a range in hex."""
        return md5_of(self.pieces(file, offset, size))
