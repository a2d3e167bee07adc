"""File objects on local files and on objects in OBS, and reading and writing content in one call."""

from __future__ import annotations

import atexit
import io
import logging
import os
import sys
import tempfile
import weakref
from pathlib import Path
from typing import IO, Any, BinaryIO, Dict, Iterator, Optional, Union

from path_mapping.localfs import CHUNK, chunks, md5_of
from path_mapping.mapping import ObsUrl
from path_mapping.mox.file_tree import url_of
from path_mapping.mox.interrupted import frees_exception, handled_now, held_by_exception, is_collected
from path_mapping.mox.object_reader import ObjectReader
from path_mapping.mox.own_store import store
from path_mapping.stores import MultipartStore, ObjectState
from path_mapping.transfer import upload_file

Data = Union[str, bytes]


class File:
    """Like the object that `open(name, mode)` returns, for local paths and for URLs.

    An object is written to a local temporary file first and uploaded by `flush` and `close`, completely or
    not at all. The modes `+` and `a` download it first. A `with` block that ends with an exception uploads
    nothing; neither does a file that is dropped without `close`, if an exception was what dropped it. What
    is read is one version of the object. Text is UTF-8, and its line ends stay as they are.

    Raises:
        FileNotFoundError: in the modes `r` and `r+`, there is no such file or object.
        FileExistsError: in mode `x`, the file or object exists.
        StoreError: the request failed; also raised by every method that talks to OBS. `Replaced`: the
            object that is being read was replaced.
    """

    def __init__(
        self,
        name: Union[str, os.PathLike[str]],
        mode: str = "r",
        encoding: Optional[str] = None,
        errors: Optional[str] = None,
        newline: Optional[str] = "\n",
    ) -> None:
        self.name, self.mode = os.fspath(name), mode
        self._url = url_of(name)
        self._temporary: Optional[BinaryIO] = None
        self._dirty = False
        self._process = os.getpid()
        self._handled = handled_now()
        plain = "".join(sorted(set(mode.replace("U", "").replace("t", "")), key="rwaxb+".index))
        text: Dict[str, Any] = {}
        if "b" not in plain:
            text = {"encoding": encoding or "utf-8", "errors": errors, "newline": newline}
        if self._url is None:
            self._stream: IO[Any] = open(self.name, plain, **text)  # noqa: SIM115
        elif plain in ("r", "rb"):
            buffered = io.BufferedReader(ObjectReader(self._url, self._existing(self._url)), CHUNK)
            self._stream = io.TextIOWrapper(buffered, **text) if text else buffered
        else:
            self._stream = self._local_copy(self._url, plain, text)
        _unclosed.add(self)

    def _existing(self, url: ObsUrl) -> ObjectState:
        known = store().find(url.bucket, url.key)
        if known is None:
            raise FileNotFoundError(2, "no such object", self.name)
        return known

    def _local_copy(self, url: ObsUrl, mode: str, text: Dict[str, Any]) -> IO[Any]:
        """Opens a temporary file without a name, which is gone however the process ends."""
        known = None
        if mode[0] == "r":
            known = self._existing(url)
        elif mode[0] in "ax":
            known = store().find(url.bucket, url.key)
        if mode[0] == "x" and known is not None:
            raise FileExistsError(17, "the object exists", self.name)
        temporary = tempfile.TemporaryFile(prefix="path_mapping.")  # noqa: SIM115
        try:
            if known is not None:
                with ObjectReader(url, known) as reader:
                    reader.copy_to(temporary)
                temporary.flush()
            self._temporary = temporary
            self._dirty = mode[0] != "r"
            return open(self._content, mode.replace("x", "w"), **text)
        except BaseException:
            temporary.close()
            raise

    @property
    def _content(self) -> str:
        """The path of the temporary file, also for other processes."""
        assert self._temporary is not None
        return f"/proc/{os.getpid()}/fd/{self._temporary.fileno()}"

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
        if self._url is not None and self._temporary is None:
            return self._existing(self._url).size
        self._stream.flush()
        return os.path.getsize(self.name if self._temporary is None else self._content)

    def flush(self) -> None:
        """Uploads what was written so far."""
        self._stream.flush()
        if self._url is not None and self._temporary is not None and self._dirty:
            _upload(Path(self._content), self._url)
            self._dirty = False

    def close(self) -> None:
        """Uploads what was written, and closes the file. Closing it again has no effect."""
        if self._stream.closed:
            return
        try:
            self.flush()
        finally:
            self._close()

    def _close(self) -> None:
        try:
            self._stream.close()
        finally:
            if self._temporary is not None:
                self._temporary.close()

    def __del__(self) -> None:
        """As with Python's files, `json.dump(found, open(name, "w"))` loses nothing.

        Where an exception ended it, as `found` is no JSON, the object stays as it was: this is called while
        another exception is handled than at the beginning, or when that has been handled, and is freed.
        What is part of a cycle of garbage is dropped later, whatever ended it: it is uploaded.
        """
        handling = handled_now() not in (None, self._handled)
        self._drop(not is_collected() and (handling or frees_exception(sys._getframe().f_back)))

    def _drop(self, interrupted: bool) -> None:
        """Closes a file that nobody has closed; one that was `interrupted` is not uploaded."""
        stream = self.__dict__.get("_stream")
        if stream is None or stream.closed or self._process != os.getpid():
            return  # a forked child has the same file
        if interrupted and self._temporary is not None and self._dirty:
            logging.getLogger("path_mapping").warning(
                "%s was not uploaded: an exception ended what wrote it before it was closed", self.name
            )
            self._close()
        else:
            self.close()

    def __getattr__(self, name: str) -> Any:
        if name == "_stream":  # it could not be opened
            raise AttributeError(name)
        return getattr(self._stream, name)

    def __enter__(self) -> File:
        return self

    def __exit__(self, kind: object, *exc: object) -> None:
        if kind is not None and self._url is not None:  # half a file must not replace a whole one
            self._close()
        else:
            self.close()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._stream)

    def __next__(self) -> Any:
        return next(self._stream)


_unclosed: weakref.WeakSet[File] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """At the end of the program, while requests can still be made."""
    for file in list(_unclosed):
        file._drop(held_by_exception(file))


def _upload(source: Path, url: ObsUrl) -> None:
    raw = store().store
    if isinstance(raw, MultipartStore) and source.stat().st_size >= raw.multipart_from:
        upload_file(raw, source, url.bucket, url.key)
    else:
        store().write(url.bucket, url.key, source, md5_of(chunks(source)), lambda size: None)


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
