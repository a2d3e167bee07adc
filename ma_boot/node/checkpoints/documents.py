"""The documents of a store, and the sets that they make: the only reader of both."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence, Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from ma_boot.errors import CheckpointDamaged
from ma_boot.node.checkpoints.keys import Attempt, KnownSet, Place, SetName, step_text
from ma_boot.node.checkpoints.manifest import CheckpointSet, read_part, whole_set
from path_mapping.errors import NotFound
from path_mapping.stores.objects import ObjectState, StoredObject
from path_mapping.workers.retry import RetriedStore

READERS = 16  # requests at a time


class Documents:
    """The documents at a place. Every method raises `StoreError`, and `Cancelled` once `to.cancel` is set."""

    def __init__(self, to: RetriedStore, place: Place) -> None:
        self.to = to
        self.place = place

    def objects(self, prefix: str) -> Iterator[StoredObject]:
        """The objects whose keys begin with the prefix, in order; a page is asked for when it is needed."""
        return self.to.listing(self.place.bucket, prefix)

    def keys(self, prefix: str) -> Iterator[str]:
        """The keys of the same objects."""
        return (stored.key for stored in self.objects(prefix))

    def known_sets(self, attempt: Attempt | None = None) -> Iterator[KnownSet]:
        """The sets as a listing shows them, the newest first: all of them, or those of an attempt."""
        prefix = self.place.sets if attempt is None else self.place.sets_of(attempt)
        return self.place.known_sets(self.keys(prefix))

    def find(self, key: str) -> ObjectState | None:
        """The state of an object; None if it does not exist."""
        return self.to.find(self.place.bucket, key)

    def read(self, key: str) -> Any | None:
        """The document; None if it does not exist, or is not JSON."""
        try:
            content = self.to.retrying(lambda: b"".join(self.to.store.read(self.place.bucket, key)))
            return json.loads(content)
        except (NotFound, ValueError, RecursionError):
            return None

    def read_all(self, keys: Sequence[str]) -> list[Any | None]:
        """The documents in the order of the keys, some at a time: 2,048 of them took 40 seconds."""
        if len(keys) < 2:
            return [self.read(key) for key in keys]
        with ThreadPoolExecutor(min(READERS, len(keys))) as pool:
            return list(pool.map(self.read, keys))

    def write(self, key: str, document: Any) -> None:
        """Stores a document."""
        content = json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode("ascii")
        self.to.write_bytes(self.place.bucket, key, content)

    def delete(self, key: str) -> None:
        """Deletes an object; it need not exist."""
        self.to.delete(self.place.bucket, key)


class SetRow(NamedTuple):
    """A set as a reader finds it: `whole` if it counts and its manifests are not damaged, else `why` not.

    Of one that is not whole, the files and their size are not known, and `written` is empty.
    """

    known: KnownSet
    whole: CheckpointSet | None
    why: str

    @property
    def step(self) -> str:
        """Its step."""
        return self.whole.step if self.whole else step_text(self.known.name.step)

    @property
    def written(self) -> str:
        """When the last of its nodes had published its part, by that node's clock; empty if not known."""
        return max((part.written for part in self.whole.parts), default="") if self.whole else ""


def read_sets(documents: Documents, damaged: AbstractSet[SetName] = frozenset()) -> Iterator[SetRow]:
    """The sets at a place, the newest first; those in `damaged` are known not to be whole.

    It takes one listing, and a request for each node of a set that counts. Of two attempts the later one is
    the newer, whatever their steps are: a job that was sent back must not jump to the line that it has left.

    Raises:
        StoreError: the store failed.
    """
    for known in documents.known_sets():
        whole, why = None, "damaged in the store" if known.name in damaged else known.why_not()
        if not why:
            try:
                whole = _read_set(documents, known)
            except CheckpointDamaged as error:
                why = str(error)
        yield SetRow(known, whole, why)


def _read_set(documents: Documents, known: KnownSet) -> CheckpointSet:
    """The set with all its manifests. Raises `CheckpointDamaged` if one is missing or damaged."""
    contents = documents.read_all([documents.place.part(part) for part in known.parts])
    by_saver = {part.index: content for part, content in zip(known.parts, contents)}
    missing = [saver for saver, content in by_saver.items() if content is None]
    if missing:
        raise CheckpointDamaged(f"the manifest of saver {missing[0]} is gone or damaged")
    parts = [read_part(content) for content in by_saver.values()]
    if any(part.name != known.name for part in parts):
        raise CheckpointDamaged("a manifest of another set has its key")
    return whole_set(parts)
