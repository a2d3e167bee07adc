"""Files in OBS as objects of Python's `io`: its buffers above a raw file of ours."""

from __future__ import annotations

import atexit
import io
import logging
import os
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Union

from path_mapping.file.file_tree import store, url_of
from path_mapping.file.object_reader import ObjectReader, warn_unclosed
from path_mapping.file.write_state import Phase, WriteState
from path_mapping.localfs.source_file import CHUNK, state_of
from path_mapping.mapping.routes import ObsUrl
from path_mapping.stores.objects import ObjectState
from path_mapping.transfer.transfer import upload_file

Data = Union[str, bytes]
_log = logging.getLogger("path_mapping")


class RawFile(io.FileIO):
    """A local file; from `bind` to `close` its content is that of an object, which `upload` replaces.

    `state` decides what is uploaded, see `write_state`.
    """

    state = WriteState()
    _url: ObsUrl
    _process: int

    def size(self) -> int:
        """Returns the size in bytes."""
        return os.fstat(self.fileno()).st_size

    def bind(self, url: ObsUrl, outer: io.IOBase, inner: io.IOBase) -> None:
        """Replaces this object by what is written from now on; `inner` is the buffer below `outer`."""
        self._url, self._process = url, os.getpid()
        self.state = self.state.bind()
        _bound[self] = weakref.ref(outer), inner

    def write(self, data: Any) -> int:
        if self.state.phase is Phase.LOST:
            return memoryview(data).nbytes
        self.state = self.state._replace(uploaded=None)
        return super().write(data)

    def truncate(self, size: int | None = None) -> int:
        self.state = self.state._replace(uploaded=None)
        return super().truncate(size)

    @contextmanager
    def hold_uploads(self) -> Iterator[None]:
        """Uploads nothing within the block, although buffers are flushed."""
        before = self.state.is_held
        self.state = self.state._replace(is_held=True)
        try:
            yield
        finally:
            self.state = self.state._replace(is_held=before)

    def upload(self) -> None:
        """Uploads the content, unless the object has it already."""
        if self.state.uploads_on_flush and self._is_changed():
            self._upload()

    def _is_changed(self) -> bool:
        # By the state on the disk: programs may also write by the descriptor.
        return self.state.has_object and self.state.differs_from(state_of(os.fstat(self.fileno())))

    def _upload(self) -> None:
        source, before = Path(f"/proc/{os.getpid()}/fd/{self.fileno()}"), state_of(os.fstat(self.fileno()))
        upload_file(store().store, source, self._url.bucket, self._url.key)
        self.state = self.state._replace(uploaded=before)

    def close(self) -> None:
        try:
            if self._is_changed():
                self._close_changed()
        finally:
            self.state = self.state.close()
            _bound.pop(self, None)
            super().close()

    def _close_changed(self) -> None:
        """Uploads the content at the end of the file, or logs why not."""
        refusal, is_dropped = self.state.refusal, self.state.phase is Phase.DROPPED
        if refusal:
            _log.warning("%s was not uploaded: %s", self.name, refusal)
            return
        if is_dropped:
            _log.warning("%s was never closed; it is uploaded as it is", self.name)
        try:
            self._upload()
        except Exception as error:
            if not is_dropped:
                raise
            # The interpreter calls this, and would only print the exception.
            _log.warning("%s was not uploaded: %s", self.name, error)

    def _dealloc_warn(self, source: object) -> None:
        """Notes that the file was dropped; Python's buffers call this before they write what they have."""
        is_bound = self.state.phase is not Phase.UNBOUND
        self.state = self.state.drop(in_forked_child=is_bound and self._process != os.getpid())
        if self.state.phase is Phase.LOST:
            _bound.pop(self, None)
        warn_unclosed(str(self.name), source)


# The garbage collector finalizes objects of a cycle in any order, but a buffer must write what it has before
# the raw file below it is closed. So all that is below the outer buffer is referenced here until it closes.
_bound: dict[RawFile, tuple[weakref.ref[io.IOBase], io.IOBase]] = {}


def temporary_file(name: str, mode: str, url: ObsUrl, known: ObjectState | None) -> RawFile:
    """Creates a file without a name, which never outlives the process; it begins with the `known` object."""
    with tempfile.TemporaryFile(prefix="path_mapping.") as file:
        if known is not None:
            with ObjectReader(url, known, name) as reader:
                reader.copy_to(file)
            file.flush()
        raw = RawFile(f"/proc/{os.getpid()}/fd/{file.fileno()}", mode.replace("x", "w"))
    raw.name = name
    if "r" in mode:
        raw.state = raw.state._replace(uploaded=state_of(os.fstat(raw.fileno())))
    return raw


@atexit.register
def _close_all() -> None:
    """Drops all open files at the end of the program, while requests can still be made."""
    for raw, (outer, inner) in list(_bound.items()):
        raw._dealloc_warn(raw)
        for buffer in filter(None, (outer(), inner)):
            with suppress(Exception):  # it was detached; or the raw file has logged the error
                buffer.close()


class _UploadingBuffer(io.IOBase):
    """A buffer that uploads when it is flushed or closed, unless a `with` block ends by an exception."""

    @property
    def _raw(self) -> RawFile:
        buffer: Any = getattr(self, "buffer", self)
        raw: RawFile = buffer.raw
        return raw

    def flush(self) -> None:
        raw = self._raw
        raw.state = raw.state._replace(is_flushed=False)
        super().flush()
        raw.state = raw.state._replace(is_flushed=True)
        raw.upload()

    def size(self) -> int:
        with self._raw.hold_uploads():
            self.flush()
        return self._raw.size()

    def close(self) -> None:
        with self._raw.hold_uploads():  # the raw file uploads when it is closed
            super().close()

    def __enter__(self) -> Any:
        self._raw.state = self._raw.state.enter_block()
        return super().__enter__()

    def __exit__(self, kind: Any, *error: Any) -> None:
        if kind is not None:
            self._raw.state = self._raw.state.fail_block(kind.__name__)
        super().__exit__(kind, *error)


class _Writer(_UploadingBuffer, io.BufferedWriter):
    pass


class _Random(_UploadingBuffer, io.BufferedRandom):
    pass


class _TextWriter(_UploadingBuffer, io.TextIOWrapper):
    def tell(self) -> int:
        with self._raw.hold_uploads():  # the three flush, but the caller asks for no upload
            return super().tell()

    def seek(self, *place: int) -> int:
        with self._raw.hold_uploads():
            return super().seek(*place)

    def truncate(self, size: int | None = None) -> int:
        with self._raw.hold_uploads():
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
    it is, as Python flushes its own files, with a `ResourceWarning` and a line in the log.

    Reads return one version of the object. Content that is read from beginning to end is compared with the
    object's checksum; after a `seek`, only the length can be checked. `fileno` of a file that is read
    downloads the object into a temporary file. Text is UTF-8 without an `encoding`, and line ends are kept.

    Raises:
        FileNotFoundError: in the modes `r` and `r+`, there is no such file or object.
        FileExistsError: in mode `x`, the file or object exists.
        ValueError: the mode is invalid, or an argument does not fit it, as from `open`.
        StoreError: the request failed; also raised by every method that makes requests. `Replaced`: the
            object that is being read was replaced.
    """
    mode = mode.replace("U", "")
    if "b" in mode:
        newline = None if newline == "\n" else newline
    else:
        encoding = encoding or "utf-8"
    # Python checks its arguments before anything is downloaded or emptied.
    checked = mode.replace("x", "w")
    io.open(os.devnull, checked, encoding=encoding, errors=errors, newline=newline).close()  # noqa: UP020
    kind = mode.replace("b", "").replace("t", "")
    url = url_of(name)
    raw = RawFile(name, kind) if url is None else _raw_object(url, name, kind)
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
        raw.bind(url, outer=file, inner=below)
    return file


def _raw_object(url: ObsUrl, name: str | os.PathLike[str], kind: str) -> Any:
    """The raw file of an object: a reader, or a temporary file to write."""
    known = _known(url, name, kind)
    if kind == "r" and known is not None:
        return ObjectReader(url, known, os.fspath(name))
    return temporary_file(os.fspath(name), kind, url, known)


def _known(url: ObsUrl, name: Any, kind: str) -> ObjectState | None:
    """Returns the object that is read, or with whose content the new one begins."""
    known = None if "w" in kind else store().find(url.bucket, url.key)
    if "r" in kind and known is None:
        raise FileNotFoundError(2, "no such object", name)
    if "x" in kind and known is not None:
        raise FileExistsError(17, "the object exists", name)
    return known


def read(url: str, binary: bool = False, **_: Any) -> Any:
    """Returns the content of a file: text decoded as UTF-8, or bytes. Raises the errors of `File`."""
    with File(url, "rb" if binary else "r") as file:
        return file.read()


def write(url: str, data: Data, binary: bool = False, **_: Any) -> None:
    """Replaces the content of a file. Raises the errors of `File`."""
    with File(url, "wb" if binary or isinstance(data, bytes) else "w") as file:
        file.write(data)


def append(url: str, data: Data, binary: bool = False, **_: Any) -> None:
    """Appends to a file. Raises the errors of `File`.

    OBS cannot append to most objects: the object is downloaded and uploaded again, so there must be one
    writer at a time.
    """
    with File(url, "ab" if binary or isinstance(data, bytes) else "a") as file:
        file.write(data)


def append_remote(src_url: str, dst_url: str, **_: Any) -> None:
    """Appends the content of one file to another. Raises the errors of `File`."""
    append(dst_url, read(src_url, binary=True), binary=True)
