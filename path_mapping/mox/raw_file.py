"""What lies below the buffers of a file on the disk: a local file, or the new content of an object."""

from __future__ import annotations

import atexit
import io
import logging
import os
import tempfile
import weakref
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Dict, Iterator, Optional, Tuple

from path_mapping.errors import NoWorkers
from path_mapping.localfs import FileState, chunks, md5_of, state_of
from path_mapping.mapping import ObsUrl
from path_mapping.mox.object_reader import ObjectReader, warn_unclosed
from path_mapping.mox.own_store import store
from path_mapping.stores import MultipartStore, ObjectState
from path_mapping.transfer import upload_file

_log = logging.getLogger("path_mapping")


class RawFile(io.FileIO):
    """A local file; between `keep` and `close` it is the new content of an object, which `upload` stores."""

    complete = True  # whether the buffers above have written all that they had
    stored: Optional[FileState] = None  # in which state the object has the content
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

    def truncate(self, size: Optional[int] = None) -> int:
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
            in_parts = isinstance(raw, MultipartStore) and before.size >= raw.multipart_from
            if in_parts:
                upload_file(raw, source, bucket, key)
        except NoWorkers:  # Python 3.12 may start no thread at exit
            in_parts = False
        if not in_parts:
            store().write(bucket, key, source, md5_of(chunks(source)), lambda size: None)
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


_kept: Dict[RawFile, Tuple[weakref.ref[io.IOBase], io.IOBase]] = {}


def temporary_file(name: str, mode: str, url: ObsUrl, known: Optional[ObjectState]) -> RawFile:
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
