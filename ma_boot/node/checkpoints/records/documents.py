"""JSON documents in OBS, and the checkpoints that manifests among them make."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence, Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from ma_boot.errors import CheckpointDamaged
from ma_boot.node.checkpoints.records.keys import Attempt, CheckpointName, ListedCheckpoint, Place, step_text
from ma_boot.node.checkpoints.records.manifest import Checkpoint, assemble_checkpoint, read_part
from path_mapping.errors import NotFound
from path_mapping.stores.objects import ObjectState, StoredObject
from path_mapping.workers.retry import RetriedStore

# Requests at a time: one after the other, 2,048 documents took 40 seconds.
READERS = 16
# Bytes; no document of ma_boot is longer: a manifest takes about 300 bytes for a file.
MOST_BYTES = 64 << 20


class Documents:
    """The documents at a place. Each method raises `StoreError`, and `Cancelled` once `to.cancel` is set."""

    def __init__(self, to: RetriedStore, place: Place) -> None:
        self.to = to
        self.place = place

    def objects(self, prefix: str) -> Iterator[StoredObject]:
        """Lists the objects with this prefix, in order; a page is requested when it is needed."""
        return self.to.listing(self.place.bucket, prefix)

    def keys(self, prefix: str) -> Iterator[str]:
        """Lists the keys of the same objects."""
        return (stored.key for stored in self.objects(prefix))

    def list_checkpoints(self, attempt: Attempt | None = None) -> Iterator[ListedCheckpoint]:
        """Lists checkpoints, the newest first: all of them, or those of an attempt."""
        prefix = self.place.manifests if attempt is None else self.place.manifests_of(attempt)
        return self.place.list_checkpoints(self.keys(prefix))

    def find(self, key: str) -> ObjectState | None:
        """Returns the state of an object; None if it does not exist."""
        return self.to.find(self.place.bucket, key)

    def read(self, key: str, most: int | None = None) -> Any | None:
        """Reads a document; returns None if it does not exist, is not JSON, or has more than `most` bytes.

        Without `most`, the limit is MOST_BYTES.
        """
        try:
            return json.loads(self.to.retrying(lambda: self._content(key, most)))
        except (NotFound, ValueError, RecursionError):
            return None

    def _content(self, key: str, most: int | None) -> bytes:
        """Reads an object; raises `ValueError` as soon as it is too long, and `StoreError`."""
        content = bytearray()
        limit = MOST_BYTES if most is None else most
        # An abandoned iterator ends its request.
        for piece in self.to.store.read(self.place.bucket, key):
            content += piece
            if len(content) > limit:
                raise ValueError(f"{key} has more than {limit:,} bytes")
        return bytes(content)

    def read_all(self, keys: Sequence[str], most: int | None = None) -> list[Any | None]:
        """Reads documents, several at a time; returns them in the order of the keys."""
        if len(keys) < 2:
            return [self.read(key, most) for key in keys]
        with ThreadPoolExecutor(min(READERS, len(keys))) as pool:
            return list(pool.map(lambda key: self.read(key, most), keys))

    def write(self, key: str, document: Any) -> None:
        """Stores a document."""
        content = json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode("ascii")
        self.to.write_bytes(self.place.bucket, key, content)

    def delete(self, key: str) -> None:
        """Deletes an object; it need not exist."""
        self.to.delete(self.place.bucket, key)


class CheckpointRow(NamedTuple):
    """A checkpoint in OBS: the listed one, and its contents if it is complete; otherwise `why` it is not.

    Files, size and time of an incomplete checkpoint are not known.
    """

    listed: ListedCheckpoint
    checkpoint: Checkpoint | None
    why: str

    @property
    def step(self) -> str:
        """The step as the layout writes it."""
        return self.checkpoint.step if self.checkpoint else step_text(self.listed.name.step)

    @property
    def written(self) -> str:
        """Time of the last part, by the clock of its node; empty if it is not known."""
        return max((part.written for part in self.checkpoint.parts), default="") if self.checkpoint else ""


def read_checkpoints(
    documents: Documents, damaged: AbstractSet[CheckpointName] = frozenset()
) -> Iterator[CheckpointRow]:
    """Reads the checkpoints at a place, the newest first; those in `damaged` are known to be damaged.

    It takes one listing, and a request for each part of a complete checkpoint. Of two attempts the later one
    is newer, whatever its steps are: a job that was set back to an earlier step must not return to the steps
    that it has left.

    Raises:
        StoreError: the store failed.
    """
    for listed in documents.list_checkpoints():
        checkpoint = None
        why = "damaged in the store" if listed.name in damaged else listed.why_incomplete()
        if not why:
            try:
                checkpoint = _read_checkpoint(documents, listed)
            except CheckpointDamaged as error:
                why = str(error)
        yield CheckpointRow(listed, checkpoint, why)


def _read_checkpoint(documents: Documents, listed: ListedCheckpoint) -> Checkpoint:
    """Reads all manifests of a checkpoint. Raises `CheckpointDamaged` if one is missing or damaged."""
    contents = documents.read_all([documents.place.part(part) for part in listed.parts])
    by_saver = {part.index: content for part, content in zip(listed.parts, contents)}
    missing = [saver for saver, content in by_saver.items() if content is None]
    if missing:
        raise CheckpointDamaged(f"the manifest of saver {missing[0]} is gone or damaged")
    parts = [read_part(content) for content in by_saver.values()]
    if any(part.name != listed.name for part in parts):
        raise CheckpointDamaged("a manifest of another checkpoint has its key")
    return assemble_checkpoint(parts)
