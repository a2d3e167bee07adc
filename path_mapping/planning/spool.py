"""A long list of tuples in bounded memory: what does not fit is in a temporary file."""

from __future__ import annotations

import pickle
import tempfile
from typing import Generic, Iterator, List, Tuple, TypeVar

IN_MEMORY = 32 << 20  # bytes
_BATCH = 1000  # items

Item = TypeVar("Item", bound=Tuple[object, ...])


class Spool(Generic[Item]):
    """Items are added, then read in the same order, as often as needed."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 -- closed by close()
        self._batch: List[Item] = []

    def add(self, item: Item) -> None:
        """Appends an item. Raises `OSError` for a full disk."""
        self._batch.append(item)
        if len(self._batch) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        self._file.seek(0, 2)
        pickle.dump(self._batch, self._file, protocol=4)  # the highest of Python 3.7
        self._batch = []

    def __iter__(self) -> Iterator[Item]:
        """All items so far; one reader at a time."""
        if self._batch:
            self._flush()
        self._file.seek(0, 2)
        end, place = self._file.tell(), 0
        while place < end:
            self._file.seek(place)
            batch = pickle.load(self._file)
            place = self._file.tell()
            yield from batch

    def close(self) -> None:
        """Frees the memory and the disk."""
        self._file.close()
