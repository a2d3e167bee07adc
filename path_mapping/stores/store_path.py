"""Carries out units through a store's own `read` and `write`: a directory, or OBS behind a proxy."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Callable, Iterable, Iterator, TypeVar

from path_mapping.errors import Cancelled, StoreError
from path_mapping.localfs import (
    CHANGED_ATTEMPTS,
    chunks,
    contained,
    make_directories,
    md5_of,
    state_of,
    write_verified,
)
from path_mapping.stores.store import Store
from path_mapping.stores.units import GetFile, PutFile, Unit

Item = TypeVar("Item")
Moved = Callable[[int], None]


class StorePath:
    """Whole files only, each at once."""

    def __init__(self, store: Store, cancel: threading.Event) -> None:
        self._store = store
        self._cancel = cancel

    def do(self, unit: Unit, moved: Moved) -> None:
        """Moves the file; raises a `StoreError`, or `OSError` for the disk."""
        moved(0)
        if isinstance(unit, GetFile):
            self._fetch(unit, moved)
        else:
            assert isinstance(unit, PutFile)
            self._send(unit, moved)

    def close(self) -> None:
        """Nothing is held."""

    def _fetch(self, unit: GetFile, moved: Moved) -> None:
        target, root = Path(unit.path), Path(unit.root)
        contained(target, root)  # each time: a link may have come since the last
        make_directories(root)  # stays, also when the file fails: what is below it is as before then

        def pieces() -> Iterator[bytes]:
            for piece in self._store.read(unit.bucket, unit.key):
                moved(len(piece))
                yield piece

        write_verified(target, pieces(), unit.size, None)  # the MD5 is the store's business

    def _send(self, unit: PutFile, moved: Moved) -> None:
        """Stores the file as it was at one moment: one that changes meanwhile is sent again, three times.

        A change makes a store refuse the file too, as its MD5 is another one then: that is no fault of it.
        """
        source = Path(unit.path)
        for _ in range(CHANGED_ATTEMPTS):
            before = state_of(os.stat(source))
            md5 = md5_of(until(self._cancel, chunks(source)))
            try:
                self._store.write(unit.bucket, unit.key, source, md5, moved)
            except StoreError:
                if state_of(os.stat(source)) == before:
                    raise
            else:
                if state_of(os.stat(source)) == before:
                    return
        raise OSError(f"it changed during each of {CHANGED_ATTEMPTS} uploads")


def until(cancel: threading.Event, items: Iterable[Item]) -> Iterator[Item]:
    """The items, for as long as nobody gives up."""
    for item in items:
        if cancel.is_set():
            raise Cancelled("the transfer was given up")
        yield item
