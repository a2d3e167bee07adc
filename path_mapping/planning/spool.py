"""A long list of tuples in bounded memory: what does not fit is in a temporary file.

Where no disk has room for that, it stays in memory, compressed: results must come home from a full disk, too.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import zlib
from heapq import merge
from itertools import chain, islice
from typing import IO, Any, Callable, Generic, Iterator, List, Optional, Sequence, Tuple, TypeVar, Union

from path_mapping.localfs import write_all

IN_MEMORY = 20_000  # items, a few hundred bytes each: nearly every transfer
_BATCH = 1000  # items
_SORTED_BATCH = 100  # items: there is one of each sorted part in memory

Item = TypeVar("Item", bound=Tuple[object, ...])
_Kept = Union[bytes, Tuple[int, int]]  # a batch: compressed, or its place and length in the file


class Spool(Generic[Item]):
    """Items are added, then read in the same order, as often as needed."""

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._first: List[Item] = []
        self._in_memory = in_memory
        self._file: Optional[IO[bytes]] = None
        self._end = 0  # of the file
        self._kept: List[_Kept] = []
        self._batch: List[Item] = []

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
        """All items so far."""
        return chain(self._first, self._read(self._kept), self._batch)

    def in_order_of(self, key: Callable[[Item], Any], wanted: Callable[[Item], bool]) -> Iterator[Item]:
        """The wanted items, sorted by a key: parts of them are sorted and kept, then merged."""
        items, most = filter(wanted, self), max(self._in_memory, _BATCH)
        runs: List[Iterator[Item]] = []
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
            import zlib

            return zlib.compress(data, 1)
        place = (self._end, len(data))
        self._end += len(data)
        return place

    def _read(self, kept: Sequence[_Kept]) -> Iterator[Item]:
        for one in kept:
            yield from self._load(one)

    def _load(self, kept: _Kept) -> List[Item]:
        if isinstance(kept, bytes):
            data = zlib.decompress(kept)
        else:
            assert self._file is not None
            data = os.pread(self._file.fileno(), kept[1], kept[0])
        batch: List[Item] = pickle.loads(data)
        return batch

    def close(self) -> None:
        """Frees the memory and the disk."""
        self._first, self._kept, self._batch = [], [], []
        if self._file is not None:
            self._file.close()
            self._file = None
