"""A list of any length in bounded memory."""

from __future__ import annotations

import os
import pickle
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import chain, islice
from typing import IO, Any, Callable, Generic, Tuple, TypeVar, Union

from path_mapping.localfs.atomic_file import write_all

# Items of a few hundred bytes that are kept in memory: enough for nearly every transfer.
IN_MEMORY = 20_000
# Items that are written to the temporary file at once.
_BATCH = 1000
# The same for sorted items: while sorted runs are merged, one batch of each run is in memory.
_SORTED_BATCH = 100

Item = TypeVar("Item", bound=Tuple[object, ...])
# A batch that is kept: its compressed bytes, or its offset and length in the temporary file.
_Kept = Union[bytes, Tuple[int, int]]


class Spool(Generic[Item]):
    """A long list: items are appended, then read in the same order, as often as needed.

    Items beyond the first `in_memory` go to a temporary file. If no disk has room for that, they stay in
    memory, compressed: uploads must work even when the disk is full.
    """

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._first: list[Item] = []
        self._in_memory = in_memory
        self._file: IO[bytes] | None = None
        self._end = 0  # size of the file in bytes
        self._kept: list[_Kept] = []
        self._batch: list[Item] = []

    def add(self, item: Item) -> None:
        """Appends an item."""
        if len(self._first) < self._in_memory:
            self._first.append(item)
            return
        self._batch.append(item)
        if len(self._batch) >= _BATCH:
            self._kept.append(self._keep(self._batch))
            self._batch = []

    def __iter__(self) -> Iterator[Item]:
        """Yields all items so far."""
        return chain(self._first, self._read(self._kept), self._batch)

    def in_order_of(self, key: Callable[[Item], Any]) -> Iterator[Item]:
        """Yields the items sorted by a key: sorted runs are kept, then merged."""
        items, most = iter(self), max(self._in_memory, _BATCH)
        runs: list[Iterator[Item]] = []
        while True:
            run = sorted(islice(items, most), key=key)
            if len(run) < most:
                return merge(run, *runs, key=key)
            starts = range(0, len(run), _SORTED_BATCH)
            runs.append(self._read([self._keep(run[at : at + _SORTED_BATCH]) for at in starts]))

    def _keep(self, batch: Sequence[Item]) -> _Kept:
        data = pickle.dumps(batch)
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 -- closed by close()
            write_all(self._file.fileno(), memoryview(data), self._end)
        except OSError:
            return zlib.compress(data, 1)
        place = (self._end, len(data))
        self._end += len(data)
        return place

    def _read(self, kept: Sequence[_Kept]) -> Iterator[Item]:
        for batch in kept:
            if isinstance(batch, bytes):
                data = zlib.decompress(batch)
            else:
                assert self._file is not None
                data = os.pread(self._file.fileno(), batch[1], batch[0])
            yield from pickle.loads(data)

    def close(self) -> None:
        """Frees the memory and the disk."""
        self._first, self._kept, self._batch = [], [], []
        if self._file is not None:
            self._file.close()
            self._file = None
