"""A long list of tuples in bounded memory: what does not fit is in a temporary file."""

from __future__ import annotations

from typing import IO, Generic, Iterator, List, Optional, Tuple, TypeVar

IN_MEMORY = 20_000  # items, a few hundred bytes each: nearly every transfer
_BATCH = 1000  # items

Item = TypeVar("Item", bound=Tuple[object, ...])


class Spool(Generic[Item]):
    """Items are added, then read in the same order, as often as needed."""

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._first: List[Item] = []
        self._in_memory = in_memory
        self._file: Optional[IO[bytes]] = None
        self._batch: List[Item] = []

    def add(self, item: Item) -> None:
        """Appends an item. Raises `OSError` for a full disk."""
        if len(self._first) < self._in_memory:
            self._first.append(item)
            return
        self._batch.append(item)
        if len(self._batch) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        if self._file is None:
            import tempfile  # slow to import

            self._file = tempfile.TemporaryFile()  # noqa: SIM115 -- closed by close()
        import pickle  # slow to import, and only for millions of files

        self._file.seek(0, 2)
        pickle.dump(self._batch, self._file)
        self._batch = []

    def __iter__(self) -> Iterator[Item]:
        """All items so far; one reader at a time."""
        yield from self._first
        if self._batch:
            self._flush()
        if self._file is None:
            return
        import pickle

        self._file.seek(0, 2)
        end, place = self._file.tell(), 0
        while place < end:
            self._file.seek(place)
            batch = pickle.load(self._file)
            place = self._file.tell()
            yield from batch

    def close(self) -> None:
        """Frees the memory and the disk."""
        self._first = []
        if self._file is not None:
            self._file.close()
