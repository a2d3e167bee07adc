"""An object as a raw file: one version of it, resumed after a failure, checked at its end."""

from __future__ import annotations

import io
import os
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any, BinaryIO, Callable, TypeVar

from path_mapping.errors import Unreachable
from path_mapping.file.file_tree import store
from path_mapping.localfs.source_file import crc64
from path_mapping.mapping.routes import ObsUrl
from path_mapping.stores.contents import UNSURE, WRONG, ContentSum
from path_mapping.stores.objects import ObjectState

Result = TypeVar("Result")

# Readings of content with a wrong checksum before reading it fails.
READINGS = 3


class WrongContent(Unreachable):
    """The received bytes do not have the object's checksum."""


class ObjectReader(io.RawIOBase):
    """The bytes of one version of an object. A seek ends the request in flight; the next read starts another.

    Its methods raise `StoreError`: `Replaced` if the object was replaced meanwhile, and `WrongContent` in
    place of the last bytes, if all bytes were read in order and are not those that were stored.

    The bytes are compared with the object's checksum. That of an object that was stored in parts is made of
    the MD5s of its parts, whose size is guessed. If no guess fits, two readings must have the same content.
    """

    mode = "rb"

    def __init__(self, url: ObsUrl, state: ObjectState, name: str) -> None:
        self._url, self._state, self.name = url, state, name
        self._position = 0
        # A local copy, for callers of `fileno`.
        self._copy: BinaryIO | None = None
        self._pieces: Iterator[bytes] | None = None
        self._rest = b""
        # The CRC-64 of each reading.
        self._seen: list[int] = []
        self._restart_check()

    def _restart_check(self) -> None:
        # The checksum of the bytes from the beginning up to the farthest position read in order.
        self._sum = ContentSum(self._state.sums)
        self._error: WrongContent | None = None

    def _check(self, piece: bytes) -> None:
        """Adds a piece at the position; raises `WrongContent` after the last one if the content is wrong."""
        if self._error is not None:
            raise self._error
        new = self._sum.size - self._position
        if not 0 <= new < len(piece):
            return
        self._sum.add(piece[new:])
        if self._sum.size < self._state.size:
            return
        match = self._sum.match(self._state.sums)
        if match.verdict == WRONG or (match.verdict == UNSURE and not self._is_seen(match.crc)):
            self._error = WrongContent(f"reading {self._url}: {match.why}")
            raise self._error

    def _is_seen(self, crc: int) -> bool:
        if crc in self._seen:
            return True
        self._seen += [crc, self._crc_of_another_reading()]
        return self._seen[-1] == crc

    def _crc_of_another_reading(self) -> int:
        place, size, version = self._url, self._state.size, self._state.version

        def read() -> int:
            crc = passed = 0
            for piece in store().store.read_from(place.bucket, place.key, 0, version):
                crc, passed = crc64(piece, crc), passed + len(piece)
            if passed != size:
                raise Unreachable(f"reading {place}: its length is not {size} bytes")
            return crc

        return store().retrying(read)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def size(self) -> int:
        """Returns the size in bytes of the version that is read."""
        return self._state.size

    def fileno(self) -> int:
        """Returns the descriptor of a local copy, downloaded for `mmap`, `numpy.load` and other programs."""
        if self._copy is None:
            self._copy = tempfile.TemporaryFile(prefix="path_mapping.")  # noqa: SIM115
            with ObjectReader(self._url, self._state, self.name) as reader:
                reader.copy_to(self._copy)
            self._copy.flush()
            self._copy.seek(self._position)
        return self._copy.fileno()

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        starts = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._state.size}
        position = starts[whence] + offset
        if position < 0:
            raise ValueError(f"negative seek position {position}")
        if position != self._position:
            self._end_request()
            if position == 0:
                self._restart_check()
        self._position = position
        return position

    def readinto(self, buffer: Any) -> int:
        self._attempts(self._fill)
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        self._position += count
        return count

    def readall(self) -> bytes:
        """Returns all bytes from the position on."""
        return self._attempts(lambda: b"".join(self._rest_of_object()))

    def copy_to(self, file: BinaryIO) -> None:
        """Replaces the content of a file by the bytes from the position on."""

        def copy() -> None:
            file.seek(0)
            file.truncate()
            for piece in self._rest_of_object():
                file.write(piece)

        self._attempts(copy)

    def _attempts(self, read: Callable[[], Result]) -> Result:
        """Calls `read`, and again if the content is wrong and the caller has none of its bytes yet."""
        start = self._position
        for left in reversed(range(READINGS)):
            try:
                return read()
            except WrongContent:
                if start or not left:
                    raise
                self._end_request()
                self._position = 0
                self._restart_check()
        raise AssertionError("unreachable")

    def _rest_of_object(self) -> Iterator[bytes]:
        while True:
            self._fill()
            piece, self._rest = self._rest, b""
            if not piece:
                return
            self._position += len(piece)
            yield piece

    def _fill(self) -> None:
        """Downloads the next piece if the last one is used up and the object has not ended."""
        if self._rest or self._position >= self._state.size:
            return
        piece = store().retrying(self._next_piece)
        self._check(piece)
        self._rest = piece

    def _next_piece(self) -> bytes:
        try:
            if self._pieces is None:
                place, version = self._url, self._state.version
                self._pieces = store().store.read_from(place.bucket, place.key, self._position, version)
            piece = next(filter(None, self._pieces), b"")
            if not piece or self._position + len(piece) > self._state.size:
                raise Unreachable(f"reading {self._url}: its length is not {self._state.size} bytes")
        except Unreachable:
            self._end_request()
            raise
        return piece

    def _end_request(self) -> None:
        if self._pieces is not None:
            # A generator in every store: closing it ends the request.
            self._pieces.close()  # type: ignore[attr-defined]
        self._pieces, self._rest = None, b""

    def close(self) -> None:
        self._end_request()
        if self._copy is not None:
            self._copy.close()
        super().close()

    def _dealloc_warn(self, source: object) -> None:
        warn_unclosed(self.name, source)


def warn_unclosed(name: str, source: object) -> None:
    """Warns of a file that is dropped without `close`, as Python does of its own files."""
    warnings.warn(f"{name} was never closed", ResourceWarning, stacklevel=3, source=source)
