"""File objects on local files and on objects in OBS, and reading and writing content in one call."""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path
from typing import IO, Any, Iterator, Optional, Union

from path_mapping.localfs import CHUNK, chunks, md5_of
from path_mapping.mapping import ObsUrl
from path_mapping.mox.file_tree import url_of
from path_mapping.mox.own_store import store

Data = Union[str, bytes]


class ObjectReader(io.RawIOBase):
    """The bytes of an object. A seek ends the request in flight; the next read starts another one."""

    def __init__(self, url: ObsUrl, size: int) -> None:
        self._url, self._size = url, size
        self._position = 0
        self._pieces: Optional[Iterator[bytes]] = None
        self._rest = b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        starts = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}
        position = starts[whence] + offset
        if position < 0:
            raise ValueError(f"negative seek position {position}")
        if position != self._position:
            self._end_request()
        self._position = position
        return position

    def readinto(self, buffer: Any) -> int:
        if self._position >= self._size:
            return 0
        if self._pieces is None:
            self._pieces = store().read_from(self._url.bucket, self._url.key, self._position)
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        self._position += count
        return count

    def _end_request(self) -> None:
        if self._pieces is not None:
            self._pieces.close()  # type: ignore[attr-defined]  # a generator in every store
        self._pieces, self._rest = None, b""

    def close(self) -> None:
        self._end_request()
        super().close()


class File:
    """Like the object that `open(name, mode)` returns, for local paths and for URLs.

    An object is written to a local temporary file first and uploaded by `flush` and `close`, completely or
    not at all. The modes `+` and `a` download it first. Text is UTF-8.

    Raises:
        FileNotFoundError: in the modes `r` and `r+`, there is no such file or object.
        FileExistsError: in mode `x`, the file or object exists.
        StoreError: the request failed; also raised by every method that talks to OBS.
    """

    def __init__(self, name: Union[str, os.PathLike[str]], mode: str = "r") -> None:
        self.name, self.mode = os.fspath(name), mode
        self._url = url_of(name)
        self._temporary: Optional[str] = None
        self._dirty = False
        plain = "".join(sorted(set(mode.replace("U", "").replace("t", "")), key="rwaxb+".index))
        encoding = None if "b" in plain else "utf-8"
        if self._url is None:
            self._stream: IO[Any] = open(self.name, plain, encoding=encoding)  # noqa: SIM115
        elif plain in ("r", "rb"):
            self._stream = self._reader(self._url, encoding)
        else:
            self._stream = self._local_copy(self._url, plain, encoding)

    def _reader(self, url: ObsUrl, encoding: Optional[str]) -> IO[Any]:
        buffered = io.BufferedReader(ObjectReader(url, self._size_of(url)), CHUNK)
        return buffered if encoding is None else io.TextIOWrapper(buffered, encoding)

    def _size_of(self, url: ObsUrl) -> int:
        known = store().find(url.bucket, url.key)
        if known is None:
            raise FileNotFoundError(2, "no such object", self.name)
        return known.size

    def _local_copy(self, url: ObsUrl, mode: str, encoding: Optional[str]) -> IO[Any]:
        known = store().find(url.bucket, url.key) if mode[0] in "rax" else None
        if mode[0] == "r" and known is None:
            raise FileNotFoundError(2, "no such object", self.name)
        if mode[0] == "x" and known is not None:
            raise FileExistsError(17, "the object exists", self.name)
        handle, self._temporary = tempfile.mkstemp(prefix="path_mapping.")
        self._dirty = mode[0] != "r"
        with os.fdopen(handle, "wb") as file:
            if known is not None:
                for piece in store().read(url.bucket, url.key):
                    file.write(piece)
        return open(self._temporary, mode.replace("x", "w"), encoding=encoding)

    def write(self, data: Any) -> int:
        """Writes at the current position; returns the number of characters or bytes written."""
        self._dirty = True
        return self._stream.write(data)

    def writelines(self, lines: Any) -> None:
        """Writes a list of lines."""
        self._dirty = True
        self._stream.writelines(lines)

    def truncate(self, size: Optional[int] = None) -> int:
        """Resizes the file to `size` bytes, by default to the current position."""
        self._dirty = True
        return self._stream.truncate(size)

    def size(self) -> int:
        """The current size in bytes."""
        if self._url is None or self._temporary is not None:
            self._stream.flush()
            return os.path.getsize(self._temporary or self.name)
        return self._size_of(self._url)

    def flush(self) -> None:
        """Uploads what was written so far."""
        self._stream.flush()
        if self._url is not None and self._temporary is not None and self._dirty:
            source = Path(self._temporary)
            store().write(self._url.bucket, self._url.key, source, md5_of(chunks(source)), lambda size: None)
            self._dirty = False

    def close(self) -> None:
        """Uploads what was written, and closes the file. Closing it again has no effect."""
        if self._stream.closed:
            return
        try:
            self.flush()
        finally:
            self._stream.close()
            if self._temporary is not None:
                os.unlink(self._temporary)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> File:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._stream)

    def __next__(self) -> Any:
        return next(self._stream)


def read(url: str, binary: bool = False, **_: Any) -> Any:
    """The content of a file: text decoded as UTF-8, or bytes. Raises what `File` raises."""
    with File(url, "rb" if binary else "r") as file:
        return file.read()


def write(url: str, data: Data, binary: bool = False, **_: Any) -> None:
    """Replaces the content of a file. Raises what `File` raises."""
    with File(url, "wb" if binary or isinstance(data, bytes) else "w") as file:
        file.write(data)


def append(url: str, data: Data, binary: bool = False, **_: Any) -> None:
    """Appends to a file. Raises what `File` raises.

    OBS objects cannot be appended to in general: the object is downloaded and uploaded again, so there must
    be one writer at a time.
    """
    with File(url, "ab" if binary or isinstance(data, bytes) else "a") as file:
        file.write(data)


def append_remote(src_url: str, dst_url: str, **_: Any) -> None:
    """Appends the content of one file to another. Raises what `File` raises."""
    append(dst_url, read(src_url, binary=True), binary=True)
