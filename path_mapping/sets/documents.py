"""Small JSON documents in a store: read, written, listed and deleted with the retries of all transfers."""

from __future__ import annotations

import json
import threading
from functools import partial
from typing import Any, Iterator, Optional, Tuple

from path_mapping.errors import NotFound
from path_mapping.stores import FileStore
from path_mapping.transfer import RetryPolicy, listing
from path_mapping.workers import retrying


class Documents:
    """The documents of one bucket. Every method raises `StoreError`, and `Cancelled` once `cancel` is set.

    `patience` is for its requests.
    """

    def __init__(self, store: FileStore, bucket: str, cancel: threading.Event, patience: RetryPolicy) -> None:
        self.store = store
        self.bucket = bucket
        self.cancel = cancel
        self.patience = patience

    def keys(self, prefix: str) -> Iterator[str]:
        """The keys that begin with the prefix, in order; a page is asked for when it is needed."""
        return (key for key, _ in self.sizes(prefix))

    def sizes(self, prefix: str) -> Iterator[Tuple[str, int]]:
        """The same keys, each with the number of its bytes."""
        found = listing(self.store, self.cancel, self.bucket, prefix, patience=self.patience)
        return ((one.key, one.size) for one in found)

    def read(self, key: str) -> Optional[Any]:
        """The document, None if there is none, or it is not JSON."""

        def content() -> bytes:
            return b"".join(self.store.read(self.bucket, key))

        try:
            return json.loads(retrying(content, self.cancel, self.patience))
        except (NotFound, ValueError):
            return None

    def write(self, key: str, document: Any) -> None:
        """Stores a document."""
        self.write_bytes(key, json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode("ascii"))

    def write_bytes(self, key: str, content: bytes) -> None:
        """Stores an object of these bytes."""
        retrying(partial(self.store.write_bytes, self.bucket, key, content), self.cancel, self.patience)

    def delete(self, key: str) -> None:
        """Deletes an object; it need not exist."""
        retrying(partial(self.store.delete, self.bucket, key), self.cancel, self.patience)
