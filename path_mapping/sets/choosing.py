"""Which set a job goes on from: the newest one that counts, found from the manifests."""

from __future__ import annotations

from typing import AbstractSet, List, NamedTuple, Optional

from path_mapping.errors import SetDamaged
from path_mapping.sets.documents import Documents
from path_mapping.sets.manifest import CheckpointSet, read_part, whole_set
from path_mapping.sets.names import KnownSet, Place, SetName


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
        why = known.why_not_whole()
        if known.name in damaged:
            why = "damaged in the store"
        if not why:
            try:
                return Choice(read_set(documents, place, known), passed_over)
            except SetDamaged as error:
                why = str(error)
        passed_over.append(f"{known.name}: {why}")
    return Choice(None, passed_over)


def read_set(documents: Documents, place: Place, known: KnownSet) -> CheckpointSet:
    """The set with all its manifests.

    Raises:
        SetDamaged: a manifest is missing or damaged.
        StoreError: the store failed.
    """
    found = {node: documents.read(place.part(known.name, node, known.nodes)) for node in known.with_parts}
    missing = [node for node, document in found.items() if document is None]
    if missing:
        raise SetDamaged(f"the manifest of node {missing[0]} is gone or damaged")
    return whole_set(known.name, [read_part(document) for document in found.values()], known.nodes)
