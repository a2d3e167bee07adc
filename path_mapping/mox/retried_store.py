"""A store whose requests are retried, by the rules of the transfers."""

from __future__ import annotations

import threading
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Callable, Iterator, List, Optional, Sequence, Tuple, TypeVar

from path_mapping.errors import Expired, Unreachable
from path_mapping.stores import MOST_DELETED, FileStore, ObjectState, StoredObject
from path_mapping.workers import retrying

Result = TypeVar("Result")


class RetriedStore:
    """Methods of the store, which are called again after a failure that may pass."""

    def __init__(self, store: FileStore) -> None:
        self.store = store
        self._never = threading.Event()

    def retrying(self, work: Callable[[], Result]) -> Result:
        """The result of `work`. Raises what it raises, `Unreachable` only after the last attempt."""
        return retrying(work, self._never)

    def list(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        return self._resumed(partial(self.store.list, bucket, prefix))

    def level(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        return self._resumed(partial(self.store.level, bucket, prefix))

    def _resumed(self, listed: Callable[[], Iterator[StoredObject]]) -> Iterator[StoredObject]:
        """Yields the entries of a listing, which is resumed after the last key when it breaks off."""
        last = ""

        def begin() -> Tuple[List[StoredObject], Iterator[StoredObject]]:
            rest = (found for found in listed() if found.key > last)
            return list(islice(rest, 1)), rest

        while True:
            first, rest = self.retrying(begin)
            try:
                for found in chain(first, rest):
                    last = found.key
                    yield found
                return
            except (Unreachable, Expired):
                continue

    def write(self, bucket: str, key: str, source: Path, md5: str, sent: Callable[[int], None]) -> None:
        self.retrying(partial(self.store.write, bucket, key, source, md5, sent))

    def find(self, bucket: str, key: str) -> Optional[ObjectState]:
        return self.retrying(partial(self.store.find, bucket, key))

    def copy(self, bucket: str, key: str, size: int, to_bucket: str, to_key: str) -> None:
        self.retrying(partial(self.store.copy, bucket, key, size, to_bucket, to_key))

    def delete(self, bucket: str, key: str) -> None:
        self.retrying(partial(self.store.delete, bucket, key))

    def delete_all(self, bucket: str, keys: Sequence[str]) -> None:
        """Deletes any number of objects, which need not exist."""
        for start in range(0, len(keys), MOST_DELETED):
            self.retrying(partial(self.store.delete_all, bucket, keys[start : start + MOST_DELETED]))
