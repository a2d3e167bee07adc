"""A file object on an object of OBS, as `open` gives one on a local file."""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path
from typing import IO, Any, Callable, Iterator, Optional

from path_mapping.localfs import CHUNK, chunks, md5_of
from path_mapping.mapping import ObsUrl
from path_mapping.stores import FileStore


class ObjectReader(io.RawIOBase):
    """The object's bytes; a seek ends the request that runs, and the next read makes another one."""

    def __init__(self, store: FileStore, url: ObsUrl, size: int) -> None:
        self._store, self._url, self._size = store, url, size
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
            self._pieces = self._store.read_from(self._url.bucket, self._url.key, self._position)
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
    """`File(path, mode)`: what `open(path, mode)` is, on local paths and on OBS.

    An object that is written lies in a local temporary file; it is stored at `flush` and at `close`, whole
    or not at all. `+` and `a` fetch it first.
    """

    def __init__(self, name: str, mode: str = "r", *, url: Optional[ObsUrl], store: Callable[[], FileStore]):
        self.name, self.mode = name, mode
        self._url, self._store = url, store
        self._temporary: Optional[str] = None
        self._dirty = False
        plain = "".join(sorted(set(mode.replace("U", "").replace("t", "")), key="rwaxb+".index))
        encoding = None if "b" in plain else "utf-8"
        if url is None:
            self._stream: IO[Any] = open(name, plain, encoding=encoding)  # noqa: SIM115
        elif plain in ("r", "rb"):
            self._stream = self._reader(url, encoding)
        else:
            self._stream = self._local_copy(url, plain, encoding)

    def _reader(self, url: ObsUrl, encoding: Optional[str]) -> IO[Any]:
        raw = ObjectReader(self._store(), url, self._found_size(url))
        buffered = io.BufferedReader(raw, CHUNK)
        return buffered if encoding is None else io.TextIOWrapper(buffered, encoding)

    def _found_size(self, url: ObsUrl) -> int:
        known = self._store().find(url.bucket, url.key)
        if known is None:
            raise FileNotFoundError(2, "no such object", self.name)
        return known.size

    def _local_copy(self, url: ObsUrl, mode: str, encoding: Optional[str]) -> IO[Any]:
        known = self._store().find(url.bucket, url.key) if mode[0] in "rax" else None
        if mode[0] == "r" and known is None:
            raise FileNotFoundError(2, "no such object", self.name)
        if mode[0] == "x" and known is not None:
            raise FileExistsError(17, "the object exists", self.name)
        handle, self._temporary = tempfile.mkstemp(prefix="path_mapping.")
        self._dirty = mode[0] != "r"
        with os.fdopen(handle, "wb") as file:
            if known is not None:
                for piece in self._store().read(url.bucket, url.key):
                    file.write(piece)
        return open(self._temporary, mode.replace("x", "w"), encoding=encoding)

    def write(self, data: Any) -> int:
        """Writes at the position of the stream."""
        self._dirty = True
        return self._stream.write(data)

    def writelines(self, lines: Any) -> None:
        """Writes one after the other."""
        self._dirty = True
        self._stream.writelines(lines)

    def truncate(self, size: Optional[int] = None) -> int:
        """As the stream's."""
        self._dirty = True
        return self._stream.truncate(size)

    def size(self) -> int:
        """Bytes, as it stands there now."""
        if self._url is None or self._temporary is not None:
            self._stream.flush()
            return os.path.getsize(self._temporary or self.name)
        return self._found_size(self._url)

    def flush(self) -> None:
        """Stores what was written so far."""
        self._stream.flush()
        if self._url is not None and self._temporary is not None and self._dirty:
            source = Path(self._temporary)
            md5 = md5_of(chunks(source))
            self._store().write(self._url.bucket, self._url.key, source, md5, lambda size: None)
            self._dirty = False

    def close(self) -> None:
        """Stores what was written, and closes; a second time it does nothing."""
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
