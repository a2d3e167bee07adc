"""Runs units through a store's own `read` and `write`: for a directory, and for OBS behind a proxy."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, TypeVar

from path_mapping.errors import Cancelled, StoreError
from path_mapping.localfs import (
    CHANGED_ATTEMPTS,
    FileChanged,
    Section,
    chunks,
    contained,
    make_directories,
    md5_of,
    state_of,
    write_verified,
)
from path_mapping.stores.store import MultipartStore, Store
from path_mapping.stores.units import (
    RIGHT,
    UNKNOWN,
    BeginParts,
    ContentMatch,
    EndParts,
    GetFile,
    PutFile,
    PutPart,
    StoredContent,
    StoredFile,
    Unit,
    UnitRunner,
)
from path_mapping.wire import md5_of_etag

Item = TypeVar("Item")
Moved = Callable[[int], None]


class StorePath(UnitRunner):
    """Moves whole files, in one piece each; into a `MultipartStore` in parts, too."""

    def __init__(self, store: Store, cancel: threading.Event) -> None:
        self._store = store
        self._cancel = cancel

    def run(self, unit: Unit, moved: Moved) -> Any:
        moved(0)
        if isinstance(unit, GetFile):
            return self._fetch(unit, moved)
        if isinstance(unit, PutFile):
            return send_unchanged(unit, lambda: self._send(unit, moved))
        store = self._store
        assert isinstance(store, MultipartStore)
        if isinstance(unit, BeginParts):
            return store.begin_parts(unit.bucket, unit.key, unit.left)
        if isinstance(unit, PutPart):
            return self._send_part(store, unit, moved)
        assert isinstance(unit, EndParts)
        if unit.etags:
            return store.end_parts(unit.bucket, unit.key, unit.upload, unit.etags, unit.size, unit.compared)
        store.abort_parts(unit.bucket, unit.key, unit.upload)
        return ""

    def close(self) -> None:
        """Holds nothing."""

    def _fetch(self, unit: GetFile, moved: Moved) -> ContentMatch:
        target, root = Path(unit.path), Path(unit.root)
        contained(target, root)  # each time: a link may have been created since the last file
        make_directories(root)  # kept even if the file fails, unlike directories below it

        verdict = RIGHT

        def pieces() -> Iterator[bytes]:
            nonlocal verdict
            source = self._store.read(unit.bucket, unit.key)
            while True:
                try:
                    piece = next(source)
                except StopIteration as end:
                    verdict = UNKNOWN if end.value is False else RIGHT
                    return
                moved(len(piece))
                yield piece

        write_verified(target, pieces(), unit.size, None)  # the store compares the content
        return ContentMatch(verdict)

    def _send(self, unit: PutFile, moved: Moved) -> StoredContent:
        source = Path(unit.path)
        md5 = md5_of(until(self._cancel, chunks(source)))
        return StoredContent(self._store.write(unit.bucket, unit.key, source, md5, moved), True)

    def _send_part(self, store: MultipartStore, unit: PutPart, moved: Moved) -> StoredContent:
        source = Path(unit.path)
        known = md5_of_etag(unit.known)
        if known is not None and known == self._md5_of(source, unit):
            moved(unit.length)
            return StoredContent(unit.known, True)
        try:
            etag = store.put_part(
                unit.bucket, unit.key, unit.upload, unit.part, source, unit.offset, unit.length, moved
            )
        except StoreError:
            if os.stat(source).st_size >= unit.offset + unit.length:
                raise
            etag = ""  # truncated: the comparison of the file's state at the end notices it, too
        return StoredContent(etag, True)

    def _md5_of(self, source: Path, unit: PutPart) -> str:
        with source.open("rb") as file:
            return Section(file, unit.offset, unit.length, lambda size: None).md5()


def send_unchanged(unit: PutFile, send: Callable[[], StoredContent]) -> StoredFile:
    """Calls `send` until the file did not change meanwhile, at most three times.

    With `unit.settled` once, and only if the file is still as it was listed. A change also explains a
    refusal: the checksum does not fit then.

    Raises:
        FileChanged: the file changed each time.
        OSError: the file cannot be read.
        StoreError: `send` failed, for another reason.
    """
    for _ in range(1 if unit.settled else CHANGED_ATTEMPTS):
        before = state_of(os.stat(unit.path))
        if unit.settled and (before.size, before.mtime_ns) != (unit.size, unit.mtime_ns):
            raise FileChanged("the file changed after it was listed")
        try:
            stored = send()
        except (StoreError, FileChanged):
            if state_of(os.stat(unit.path)) == before:
                raise
        else:
            if state_of(os.stat(unit.path)) == before:
                return StoredFile(stored.etag, before.size, before.mtime_ns, stored.compared)
    raise FileChanged(f"the file changed during each of {CHANGED_ATTEMPTS} uploads")


def until(cancel: threading.Event, items: Iterable[Item]) -> Iterator[Item]:
    """Yields the items; raises `Cancelled` once `cancel` is set."""
    for item in items:
        if cancel.is_set():
            raise Cancelled
        yield item
