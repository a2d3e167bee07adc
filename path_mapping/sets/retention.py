"""Removes whole sets that newer ones have replaced: no reader ever sees a manifest without its files."""

from __future__ import annotations

from typing import Iterable, List, NamedTuple, Optional, Sequence

from path_mapping.errors import SetDamaged
from path_mapping.localfs import unsafe
from path_mapping.sets.documents import Documents
from path_mapping.sets.manifest import read_part
from path_mapping.sets.names import KnownSet, Place, SetName


class Superfluous(NamedTuple):
    """The sets to remove: whole ones, and those that can never become whole."""

    whole: List[KnownSet]
    broken: List[KnownSet]


def superfluous(found: Sequence[KnownSet], keep: Optional[int], spared: Iterable[SetName]) -> Superfluous:
    """What of these sets, the newest first, may go if the newest `keep` whole ones stay, or all. Pure.

    A set that is not whole may go if its attempt is over: a whole set of a later one exists.
    """
    whole = [one for one in found if one.nodes]
    stay = {one.name for one in whole[: None if keep is None else max(1, keep)]} | set(spared)
    newest = whole[0].name.attempt if whole else None
    broken = [
        one
        for one in found
        if not one.nodes and newest is not None and one.name.attempt.number < newest.number
    ]
    return Superfluous([one for one in whole if one.name not in stay], broken)


def remove_set(documents: Documents, place: Place, known: KnownSet) -> int:
    """Removes a set: its manifests first, then the files that they name. Returns the number of these.

    A note of what is to go comes before, so that `finish_removals` can go on if this is killed. Raises
    `StoreError` and `Cancelled`.
    """
    manifests: List[str] = []
    files: List[str] = []
    for node, nodes in known.parts:
        key = place.part(known.name, node, nodes)
        manifests.append(key)
        document = documents.read(key)
        if document is not None:
            files += _keys(document, known.name)
    documents.write(place.removal(known.name), {"format": 1, "manifests": manifests, "files": files})
    return _finish(documents, place, place.removal(known.name), manifests, files)


def finish_removals(documents: Documents, place: Place) -> int:
    """Ends the removals that were interrupted; returns their number. Raises `StoreError` and `Cancelled`."""
    number = 0
    for key in list(documents.keys(place.removals)):
        found = documents.read(key)
        if isinstance(found, dict):
            manifests = [one for one in found.get("manifests", ()) if str(one).startswith(place.sets)]
            files = [one for one in found.get("files", ()) if str(one).startswith("attempt-")]
            _finish(documents, place, key, manifests, files)
            number += 1
    return number


def _keys(document: object, name: SetName) -> List[str]:
    """The keys below the prefix of the files of a manifest; none if it is damaged or another set's."""
    try:
        part = read_part(document)
    except SetDamaged:
        return []
    return [one.key for one in part.files if part.name == name]


def _finish(
    documents: Documents, place: Place, note: str, manifests: Sequence[str], files: Sequence[str]
) -> int:
    for key in manifests:
        documents.delete(key)
    for name in files:
        if unsafe(name) is None:
            documents.delete(place.prefix + name)
    documents.delete(note)
    return len(files)
