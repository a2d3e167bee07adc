"""The documents of a store, and the sets that count: the one reader of them all."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import AbstractSet, Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ma_boot.checkpoints.keys import KnownSet, Place, SetName
from ma_boot.checkpoints.manifest import CheckpointSet, read_part, whole_set
from ma_boot.errors import CheckpointDamaged
from path_mapping.errors import NotFound
from path_mapping.stores import Store
from path_mapping.transfer import RetriedStore, RetryPolicy
from path_mapping.workers import retrying

READERS = 16  # requests at a time


class Documents:
    """The documents of one bucket. Every method raises `StoreError`, and `Cancelled` once `cancel` is set.

    `patience` is for its requests.
    """

    def __init__(self, store: Store, bucket: str, cancel: threading.Event, patience: RetryPolicy) -> None:
        self.store = store
        self.bucket = bucket
        self.cancel = cancel
        self.patience = patience

    def keys(self, prefix: str) -> Iterator[str]:
        """The keys that begin with the prefix, in order; a page is asked for when it is needed."""
        return (key for key, _ in self.sizes(prefix))

    def sizes(self, prefix: str) -> Iterator[Tuple[str, int]]:
        """The same keys, each with the number of its bytes."""
        objects = RetriedStore(self.store, self.cancel, self.patience).listing(self.bucket, prefix)
        return ((stored.key, stored.size) for stored in objects)

    def read(self, key: str) -> Optional[Any]:
        """The document, None if there is none, or it is not JSON."""

        def content() -> bytes:
            return b"".join(self.store.read(self.bucket, key))

        try:
            return json.loads(retrying(content, self.cancel, self.patience))
        except (NotFound, ValueError, RecursionError):
            return None

    def read_all(self, keys: Sequence[str]) -> List[Optional[Any]]:
        """The documents in the order of the keys, some at a time: those of 2,048 nodes took 40 seconds."""
        if len(keys) < 2:
            return [self.read(key) for key in keys]
        with ThreadPoolExecutor(min(READERS, len(keys))) as pool:
            return list(pool.map(self.read, keys))

    def write(self, key: str, document: Any) -> None:
        """Stores a document."""
        content = json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode("ascii")
        retrying(partial(self.store.write_bytes, self.bucket, key, content), self.cancel, self.patience)

    def delete(self, key: str) -> None:
        """Deletes an object; it need not exist."""
        retrying(partial(self.store.delete, self.bucket, key), self.cancel, self.patience)


class Choice(NamedTuple):
    """The set to go on from, None for none; `passed_over` are newer ones, each with the reason."""

    chosen: Optional[CheckpointSet]
    passed_over: List[str]


def choose_newest(documents: Documents, place: Place, damaged: AbstractSet[SetName]) -> Choice:
    """The newest set that counts and is not known to be `damaged`.

    It takes one listing, in which the newest sets come first, and a request for each node of the set. Of two
    attempts the later one is the newer, whatever their steps are: a job that was sent back must not jump to
    the line that it has left.

    Raises:
        StoreError: the store failed.
    """
    passed_over: List[str] = []
    for known in place.known_sets(documents.keys(place.sets)):
        why = known.why_not()
        if known.name in damaged:
            why = "damaged in the store"
        if not why:
            try:
                return Choice(read_set(documents, place, known), passed_over)
            except CheckpointDamaged as error:
                why = str(error)
        passed_over.append(f"{known.name}: {why}")
    return Choice(None, passed_over)


def read_set(documents: Documents, place: Place, known: KnownSet) -> CheckpointSet:
    """The set with all its manifests.

    Raises:
        CheckpointDamaged: a manifest is missing or damaged.
        StoreError: the store failed.
    """
    contents = documents.read_all([place.part(part) for part in known.parts])
    documents_by_saver = {part.index: content for part, content in zip(known.parts, contents)}
    missing = [saver for saver, document in documents_by_saver.items() if document is None]
    if missing:
        raise CheckpointDamaged(f"the manifest of saver {missing[0]} is gone or damaged")
    parts = [read_part(document) for document in documents_by_saver.values()]
    if any(part.name != known.name for part in parts):
        raise CheckpointDamaged("a manifest of another set has its key")
    return whole_set(parts)
