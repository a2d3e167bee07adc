"""Files as Python's own: its buffers, above a raw file of ours; reads and writes whole contents."""

from __future__ import annotations

import atexit
import io
import logging
import os
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Union

from path_mapping.errors import NoWorkers
from path_mapping.file.file_tree import store, url_of
from path_mapping.file.object_reader import ObjectReader, warn_unclosed
from path_mapping.localfs.source_file import CHUNK, FileState, chunks, md5_of, state_of
from path_mapping.mapping.routes import ObsUrl
from path_mapping.stores.objects import ObjectState
from path_mapping.transfer.transfer import upload_file

Data = Union[str, bytes]
_log = logging.getLogger("path_mapping")


class RawFile(io.FileIO):
    """A local file; between `keep` and `close` it is the new content of an object, which `upload` stores."""

    complete = True  # whether the buffers above have written all that they had
    stored: FileState | None = None  # in which state the object has the content
    entered = False  # whether a `with` block has begun
    given_up = ""  # why it is not uploaded when it is closed
    _held = _dropped = _lost = False
    _url: ObsUrl

    def size(self) -> int:
        """The size in bytes."""
        return os.fstat(self.fileno()).st_size

    def keep(self, url: ObsUrl, outer: io.IOBase, inner: io.IOBase) -> None:
        """Stores in this object what is written from now on.

        Everything below the `outer` buffer is held here: so the garbage collector, which has no order, does
        not close it before the outer one has written what it has.
        """
        self._url, self._process = url, os.getpid()
        _kept[self] = weakref.ref(outer), inner

    def write(self, data: Any) -> int:
        if self._lost:
            return memoryview(data).nbytes
        self.stored = None
        return super().write(data)

    def truncate(self, size: int | None = None) -> int:
        self.stored = None
        return super().truncate(size)

    def _is_changed(self) -> bool:
        """Whether there is something to store; its state tells what was written by the descriptor."""
        return self in _kept and state_of(os.fstat(self.fileno())) != self.stored

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within it, `upload` does nothing."""
        before, self._held = self._held, True
        try:
            yield
        finally:
            self._held = before

    def upload(self) -> None:
        """Stores what was written so far, if it was not yet."""
        if self._held or not self._is_changed():
            return
        source, before = Path(f"/proc/{os.getpid()}/fd/{self.fileno()}"), state_of(os.fstat(self.fileno()))
        raw, (bucket, key) = store().store, (self._url.bucket, self._url.key)
        try:
            in_parts = before.size >= raw.multipart_from
            if in_parts:
                upload_file(raw, source, bucket, key)
        except NoWorkers:  # Python 3.12 may start no thread at exit
            in_parts = False
        if not in_parts:
            md5 = md5_of(chunks(source))
            store().retrying(partial(raw.write, bucket, key, source, md5, lambda size: None))
        self.stored = before

    def close(self) -> None:
        self._held = False
        reason = self.given_up
        if self._dropped and self.entered:
            reason = reason or "its `with` block had not ended"
        if not self.complete:
            reason = reason or "not all of it could be written to the temporary file"
        try:
            if self._is_changed() and reason:
                _log.warning("%s was not uploaded: %s", self.name, reason)
            elif self._is_changed():
                if self._dropped:
                    _log.warning("%s was never closed; it is uploaded as it is", self.name)
                self.upload()
        except Exception as error:
            if not self._dropped:
                raise
            _log.warning("%s was not uploaded: %s", self.name, error)  # nobody could catch it
        finally:
            _kept.pop(self, None)
            super().close()

    def _dealloc_warn(self, source: object) -> None:
        """Called by a dropped buffer before it writes what it has, which is lost in a forked child."""
        self._lost = self in _kept and self._process != os.getpid()
        if self._lost:
            del _kept[self]
        self._dropped = True
        warn_unclosed(str(self.name), source)


_kept: dict[RawFile, tuple[weakref.ref[io.IOBase], io.IOBase]] = {}


def temporary_file(name: str, mode: str, url: ObsUrl, known: ObjectState | None) -> RawFile:
    """A file without a name on the disk, gone however the process ends; it begins with the `known` object."""
    with tempfile.TemporaryFile(prefix="path_mapping.") as file:
        if known is not None:
            with ObjectReader(url, known, name) as reader:
                reader.copy_to(file)
            file.flush()
        raw = RawFile(f"/proc/{os.getpid()}/fd/{file.fileno()}", mode.replace("x", "w"))
    raw.name = name
    if "r" in mode:
        raw.stored = state_of(os.fstat(raw.fileno()))
    return raw


@atexit.register
def _close_all() -> None:
    """At the end of the program, while requests can still be made."""
    for raw, (outer, inner) in list(_kept.items()):
        raw._dealloc_warn(raw)
        for buffer in filter(None, (outer(), inner)):
            with suppress(Exception):  # it was detached; or the raw file has logged what is wrong
                buffer.close()


class _Uploaded(io.IOBase):
    """Uploads when it is flushed and closed, but not when a `with` block ends by an exception."""

    @property
    def _raw(self) -> RawFile:
        buffer: Any = getattr(self, "buffer", self)
        raw: RawFile = buffer.raw
        return raw

    def flush(self) -> None:
        self._raw.complete = False
        super().flush()
        self._raw.complete = True
        self._raw.upload()

    def size(self) -> int:
        with self._raw.held():
            self.flush()
        return self._raw.size()

    def close(self) -> None:
        with self._raw.held():  # the raw file uploads when it is closed
            super().close()

    def __enter__(self) -> Any:
        self._raw.entered = True
        return super().__enter__()

    def __exit__(self, kind: Any, *error: Any) -> None:
        if kind is not None:
            self._raw.given_up = f"its `with` block ended by {kind.__name__}"
        super().__exit__(kind, *error)


class _Writer(_Uploaded, io.BufferedWriter):
    pass


class _Random(_Uploaded, io.BufferedRandom):
    pass


class _TextWriter(_Uploaded, io.TextIOWrapper):
    def tell(self) -> int:
        with self._raw.held():  # these flush what has been written, which is no wish to upload it
            return super().tell()

    def seek(self, *place: int) -> int:
        with self._raw.held():
            return super().seek(*place)

    def truncate(self, size: int | None = None) -> int:
        with self._raw.held():
            return super().truncate(size)


def File(
    name: str | os.PathLike[str],
    mode: str = "r",
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = "\n",
) -> Any:
    """Opens a local path or a URL as `open` does: the file is one of Python's own, with a `size()` besides.

    An object that is written is a local temporary file first, uploaded by `flush` and `close`, completely or
    not at all. The modes `+` and `a` download it first. A `with` block that ends by an exception uploads
    nothing. A file that is dropped without `close`, or still open at the end of the program, is uploaded as
    it is, as Python writes its own, with a `ResourceWarning` and a line that says so.

    What is read is one version of the object. From beginning to end it is compared with the object's
    checksum; after a `seek`, only the length can be checked. `fileno` of a file that is read downloads the
    object into a temporary file. Text is UTF-8, unless `encoding` says otherwise, and its line ends stay as
    they are.

    Raises:
        FileNotFoundError: in the modes `r` and `r+`, there is no such file or object.
        FileExistsError: in mode `x`, the file or object exists.
        ValueError: of the mode, or of what does not go with it, as from `open`.
        StoreError: the request failed; also raised by every method that talks to OBS. `Replaced`: the
            object that is being read was replaced.
    """
    mode = mode.replace("U", "")
    if "b" in mode:
        newline = None if newline == "\n" else newline
    else:
        encoding = encoding or "utf-8"
    # Python checks its arguments before anything is downloaded or emptied.
    io.open(os.devnull, mode.replace("x", "w"), -1, encoding, errors, newline).close()  # noqa: UP020
    kind = mode.replace("b", "").replace("t", "")
    url = url_of(name)
    known = None if url is None else _known(url, name, kind)
    raw: Any
    if url is None:
        raw = RawFile(name, kind)
    elif kind == "r" and known is not None:
        raw = ObjectReader(url, known, os.fspath(name))
    else:
        raw = temporary_file(os.fspath(name), kind, url, known)
    layer = _Random if "+" in kind else io.BufferedReader if kind == "r" else _Writer
    file: Any = layer(raw, CHUNK if url else io.DEFAULT_BUFFER_SIZE)
    below: Any = raw
    if "b" not in mode:
        below, text = file, io.TextIOWrapper if kind == "r" else _TextWriter
        file = text(below, encoding, errors, newline)
        file.mode = mode
    if kind == "r":
        file.size = raw.size
    elif url is not None:
        raw.keep(url, file, below)
    return file


def _known(url: ObsUrl, name: Any, kind: str) -> ObjectState | None:
    """The object that is read, or whose content the new one begins with."""
    known = None if "w" in kind else store().find(url.bucket, url.key)
    if "r" in kind and known is None:
        raise FileNotFoundError(2, "no such object", name)
    if "x" in kind and known is not None:
        raise FileExistsError(17, "the object exists", name)
    return known


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
