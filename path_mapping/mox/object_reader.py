"""The bytes of an object as a file: one version of it, resumed after a failure, checked at its end."""

from __future__ import annotations

import io
import os
from typing import Any, BinaryIO, Callable, Iterator, List, Optional, TypeVar

from path_mapping.errors import Unreachable
from path_mapping.localfs import crc64, new_md5
from path_mapping.mapping import ObsUrl
from path_mapping.mox.own_store import store
from path_mapping.stores import ObjectState, etag_of_parts

Result = TypeVar("Result")

READINGS = 3  # of content that does not have its checksum, until reading it has failed


class WrongContent(Unreachable):
    """The bytes that arrived do not have the object's checksum."""


class SequentialCheck:
    """Compares the bytes of an object, if all of them pass in their order, with its checksum."""

    def __init__(self, url: ObsUrl, state: ObjectState) -> None:
        self._url, self._state = url, state
        self._crc, self._digest, self._passed = 0, new_md5(), 0
        self._error: Optional[WrongContent] = None

    def add(self, offset: int, piece: bytes) -> None:
        """Takes a piece at an offset.

        Raises:
            WrongContent: it is the last one, and the whole is not what was stored.
        """
        if self._error is not None:
            raise self._error
        if not offset <= self._passed < offset + len(piece):
            return
        fresh = piece[self._passed - offset :]
        self._passed += len(fresh)
        if self._state.crc64 is not None:
            self._crc = crc64(fresh, self._crc)
            here, there = str(self._crc), str(self._state.crc64)
        elif self._state.md5 is not None:
            self._digest.update(fresh)
            here, there = self._digest.hexdigest(), self._state.md5
        else:
            return
        if self._passed >= self._state.size and here != there:
            why = f"reading {self._url}: the checksum in OBS is {there}, here it is {here}"
            self._error = WrongContent(why)
            raise self._error


class PartsCheck:
    """Compares a whole object with the MD5s of its parts, of which the ETag of a multipart upload is made.

    Their size is guessed. If no guess fits, the content of two readings must be the same: `seen` has the
    CRC-64 of each.
    """

    def __init__(self, url: ObsUrl, state: ObjectState, seen: List[int]) -> None:
        self._url, self._etag, self._seen = url, state.version.strip('"').lower(), seen
        self._digests = {size: [new_md5()] for size in state.part_sizes}
        self._crc = self._passed = 0

    def add(self, piece: bytes) -> None:
        """Takes the next piece."""
        for size, digests in self._digests.items():
            view, left = memoryview(piece), size * len(digests) - self._passed
            while view:
                if not left:
                    digests.append(new_md5())
                    left = size
                digests[-1].update(view[:left])
                view, left = view[left:], max(0, left - len(view))
        if self._digests:
            self._crc = crc64(piece, self._crc)
        self._passed += len(piece)

    def finish(self) -> None:
        """Raises `WrongContent` if the content may be wrong, and should be read again."""
        of_parts = (tuple(one.hexdigest() for one in digests) for digests in self._digests.values())
        if not self._digests or self._etag in map(etag_of_parts, of_parts) or self._crc in self._seen:
            return
        self._seen.append(self._crc)
        raise WrongContent(
            f"reading {self._url}: the ETag in OBS is {self._etag}, no usual part size gives it"
        )


class ObjectReader(io.RawIOBase):
    """The bytes of one version of an object. A seek ends the request in flight; the next read starts another.

    Its methods raise `StoreError`: `Replaced` if the object is another one meanwhile, `WrongContent` before
    the last bytes if all were read in their order, and they are not those that were stored.
    """

    def __init__(self, url: ObsUrl, state: ObjectState) -> None:
        self._url, self._state = url, state
        self._position = 0
        self._pieces: Optional[Iterator[bytes]] = None
        self._rest = b""
        self._check = SequentialCheck(url, state)
        self._seen: List[int] = []

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

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
                self._check = SequentialCheck(self._url, self._state)
        self._position = position
        return position

    def readinto(self, buffer: Any) -> int:
        self._attempts(self._fill)
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        self._position += count
        return count

    def readall(self) -> bytes:
        """All bytes from here on."""
        return self._attempts(lambda: b"".join(self._checked_rest()))

    def copy_to(self, file: BinaryIO) -> None:
        """Makes the bytes from here on the content of the file."""

        def copy() -> None:
            file.seek(0)
            file.truncate()
            for piece in self._checked_rest():
                file.write(piece)

        self._attempts(copy)

    def _attempts(self, read: Callable[[], Result]) -> Result:
        """Calls `read` again if the content is wrong and nobody has got any of it yet."""
        start = self._position
        for left in reversed(range(READINGS)):
            try:
                return read()
            except WrongContent:
                if start or not left:
                    raise
                self._begin_again()
        raise AssertionError("unreachable")

    def _checked_rest(self) -> Iterator[bytes]:
        check = PartsCheck(self._url, self._state, self._seen) if not self._position else None
        for piece in self._rest_of_object():
            if check is not None:
                check.add(piece)
            yield piece
        if check is not None:
            check.finish()

    def _rest_of_object(self) -> Iterator[bytes]:
        while True:
            self._fill()
            piece, self._rest = self._rest, b""
            if not piece:
                return
            self._position += len(piece)
            yield piece

    def _fill(self) -> None:
        """Fetches the next piece if there is none; at the end of the object there is none afterwards."""
        if self._rest or self._position >= self._state.size:
            return
        piece = store().retrying(self._next_piece)
        self._check.add(self._position, piece)
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

    def _begin_again(self) -> None:
        self._end_request()
        self._position, self._check = 0, SequentialCheck(self._url, self._state)

    def _end_request(self) -> None:
        if self._pieces is not None:
            self._pieces.close()  # type: ignore[attr-defined]  # a generator in every store
        self._pieces, self._rest = None, b""

    def close(self) -> None:
        self._end_request()
        super().close()
