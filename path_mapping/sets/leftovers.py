"""Files in a store that no manifest names: their step was killed before its manifest was written.

Only what an attempt of ours has sent is ever meant: it lies below the directory of an attempt, with a random
tag of which a document of ours tells, and has the name of a file of a step without a manifest of its node.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Sequence, Set, Tuple

from path_mapping.errors import SetDamaged
from path_mapping.layouts import AUTO, LAYOUTS, Layout, layout_of
from path_mapping.sets.documents import Documents
from path_mapping.sets.manifest import read_part
from path_mapping.sets.names import Attempt, Place, SetName
from path_mapping.workers import retrying


class Leftover(NamedTuple):
    """A file of a step that was never published: its whole key, its bytes, and when it was stored.

    `stored` is in seconds since the epoch, by the store's clock.
    """

    name: SetName
    node: int
    key: str
    size: int
    stored: float


_Files = Dict[Attempt, List[Tuple[str, int]]]  # keys and sizes


def leftovers(documents: Documents, place: Place, is_over: Callable[[Attempt], bool]) -> List[Leftover]:
    """The files of attempts that are over which no manifest names.

    Two listings, and a few requests for each attempt that has such files. What goes up meanwhile is safe: the
    files are listed before the manifests. Raises `StoreError` and `Cancelled`.
    """
    files: _Files = {}
    for key, size in documents.sizes(f"{place.prefix}attempt-"):
        attempt = place.attempt_of_file(key)
        if attempt is not None and is_over(attempt):
            files.setdefault(attempt, []).append((key, size))
    if not files:
        return []
    manifests: Dict[Attempt, List[str]] = {}
    for key in documents.keys(place.sets):
        part = place.part_of(key)
        if part is not None:
            manifests.setdefault(part[0].attempt, []).append(key)
    return [
        one
        for attempt, sent in files.items()
        for one in _of_attempt(documents, place, attempt, sent, manifests.get(attempt, []))
    ]


def remove_leftovers(documents: Documents, found: Sequence[Leftover]) -> None:
    """Deletes these files. Raises `StoreError` and `Cancelled`."""
    for one in found:
        documents.delete(one.key)


def _of_attempt(
    documents: Documents, place: Place, attempt: Attempt, sent: List[Tuple[str, int]], manifests: List[str]
) -> Iterator[Leftover]:
    begin = documents.read(place.of_attempt(attempt, "begin.json"))
    if not isinstance(begin, dict) or not isinstance(begin.get("nodes"), int):
        return  # not ours
    below = {key: place.path_of_file(key, attempt, begin["nodes"]) for key, _ in sent}
    layouts = _layouts(begin, [path for _, path in below.values()])
    parts = {(name.step, node) for name, node, _ in filter(None, map(place.part_of, manifests))}
    candidates = []
    for key, size in sent:
        node, path = below[key]
        step = next(filter(None, (layout.step_of(path) for layout in layouts)), None)
        if step is not None and (step.number, node) not in parts:
            candidates.append((key, size, SetName(attempt, step.number), node))
    if not candidates:
        return
    named = _named(documents, place, manifests)
    for key, size, name, node in candidates:
        if key not in named:
            state = retrying(
                partial(documents.store.find, place.bucket, key), documents.cancel, documents.patience
            )
            if state is not None:
                yield Leftover(name, node, key, size, state.mtime_ns / 1e9)


def _layouts(begin: Dict[str, Any], paths: Sequence[str]) -> Sequence[Layout]:
    """How the attempt names its files: in all known ways where they are too few to tell."""
    checkpoint = begin.get("checkpoint", [AUTO])
    try:
        found = layout_of([str(one) for one in checkpoint], paths)
    except (ValueError, TypeError):
        return ()
    return (found,) if found is not None else tuple(LAYOUTS.values())


def _named(documents: Documents, place: Place, manifests: Sequence[str]) -> Set[str]:
    """The keys of all files that these manifests name."""
    found: Set[str] = set()
    for key in manifests:
        try:
            found |= {place.prefix + one.key for one in read_part(documents.read(key)).files}
        except SetDamaged:
            continue
    return found
