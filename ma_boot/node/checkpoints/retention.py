"""What may go: sets that newer ones have replaced, and files of steps that were killed before their manifest.

No reader ever sees a manifest without its files. Of files without a manifest only what an attempt of ours has
sent is ever meant: it lies below the directory of an attempt, with a random tag of which a document of ours
tells, and has the name of a file of a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Callable, NamedTuple

from ma_boot.errors import CheckpointDamaged
from ma_boot.node.checkpoints.keys import Attempt, KnownSet, SetName
from ma_boot.node.checkpoints.layout import Layout
from ma_boot.node.checkpoints.layouts import AUTO, LAYOUTS, framework_of, layout_by_name
from ma_boot.node.checkpoints.manifest import Part, read_part
from ma_boot.node.checkpoints.sets import Documents
from path_mapping.localfs.names import name_problem
from path_mapping.stores.objects import StoredObject


class Superfluous(NamedTuple):
    """The sets to remove: newer ones have replaced the `whole` ones, the `broken` ones can never count."""

    whole: list[KnownSet]
    broken: list[KnownSet]


def superfluous(known: Sequence[KnownSet], keep: int | None, spared: Iterable[SetName]) -> Superfluous:
    """What of these sets, the newest first, may go if the newest `keep` that count stay, or all. Pure.

    An older version of a step goes when a newer one counts. A set that does not count may go if its attempt
    is over: a set of a later one counts, or if a newer version of its step does.
    """
    spare, whole = set(spared), []
    newest_of: dict[tuple[Attempt, int], KnownSet] = {}
    for entry in known:
        if entry.counts and newest_of.setdefault((entry.name.attempt, entry.name.step), entry) is entry:
            whole.append(entry)
    stay = {entry.name for entry in whole[: None if keep is None else max(1, keep)]} | spare
    last = max((entry.name.attempt.number for entry in whole), default=0)
    gone: Superfluous = Superfluous([], [])
    for entry in known:
        newer = newest_of.get((entry.name.attempt, entry.name.step))
        if entry.counts and entry.name not in stay:
            gone.whole.append(entry)
        elif not entry.counts and (
            entry.name.attempt.number < last or (newer and newer.name.order > entry.name.order)
        ):
            gone.broken.append(entry)
    return gone


def remove_set(documents: Documents, known: KnownSet, others: Sequence[KnownSet] = ()) -> None:
    """Removes a set: its manifests first, then the files that they name.

    Files that `others` name, versions of the same step, stay. A note of what is to go comes before, so that
    `finish_removals` can go on if this is killed. Raises `StoreError` and `Cancelled`.
    """
    place = documents.place
    manifests = [place.part(part) for part in known.parts]
    files = _files(documents, known)
    for other in others:
        if (other.name.attempt, other.name.step) == known.name[:2] and other.name != known.name:
            files -= _files(documents, other)
    note = {"format": 1, "manifests": manifests, "files": sorted(files)}
    documents.write(place.removal(known.name), note)
    _finish(documents, place.removal(known.name), manifests, sorted(files))


def finish_removals(documents: Documents) -> None:
    """Ends the removals that were interrupted. Raises `StoreError` and `Cancelled`."""
    place = documents.place
    for key in list(documents.keys(place.removals)):
        note = documents.read(key)
        if isinstance(note, dict):
            manifests = [name for name in note.get("manifests", ()) if str(name).startswith(place.sets)]
            files = [name for name in note.get("files", ()) if str(name).startswith("attempt-")]
            _finish(documents, key, manifests, files)


def _files(documents: Documents, known: KnownSet) -> set[str]:
    """The keys below the prefix of the files of a set; none of a manifest that is damaged."""
    names: set[str] = set()
    for part in known.parts:
        document = documents.read(documents.place.part(part))
        with suppress(CheckpointDamaged):
            manifest: Part = read_part(document)
            names |= {file.key for file in manifest.files if manifest.name == known.name}
    return names


def _finish(documents: Documents, note: str, manifests: Sequence[str], files: Sequence[str]) -> None:
    for key in manifests:
        documents.delete(key)
    for name in files:
        if name_problem(name) is None:
            documents.delete(documents.place.prefix + name)
    documents.delete(note)


class Leftover(NamedTuple):
    """A file of a step that was never published: its whole key, its bytes, and when it was stored.

    `stored` is in seconds since the epoch, by the store's clock.
    """

    name: SetName
    node: int
    key: str
    size: int
    stored: float


def leftovers(documents: Documents, is_over: Callable[[Attempt], bool]) -> list[Leftover]:
    """The files of attempts that are over which no manifest names.

    Two listings, and a request for each manifest of an attempt that has files. What goes up meanwhile is
    safe: the files are listed before the manifests. Raises `StoreError` and `Cancelled`.
    """
    place = documents.place
    files: dict[Attempt, list[StoredObject]] = {}
    for stored in documents.objects(f"{place.prefix}attempt-"):
        attempt = place.attempt_of_file(stored.key)
        if attempt is not None and is_over(attempt):
            files.setdefault(attempt, []).append(stored)
    if not files:
        return []
    manifests: dict[Attempt, list[str]] = {}
    for key in documents.keys(place.sets):
        part = place.part_of(key)
        if part is not None:
            manifests.setdefault(part.name.attempt, []).append(key)
    return [
        left
        for attempt, sent in files.items()
        for left in _of_attempt(documents, attempt, sent, manifests.get(attempt, []))
    ]


def _of_attempt(
    documents: Documents, attempt: Attempt, sent: list[StoredObject], manifests: list[str]
) -> Iterator[Leftover]:
    place = documents.place
    begin = documents.read(place.of_attempt(attempt, "begin.json"))
    if not isinstance(begin, dict) or not isinstance(begin.get("nodes"), int):
        return  # not ours
    nodes_and_paths = [place.path_of_file(stored.key, attempt, begin["nodes"]) for stored in sent]
    layouts = _layouts(begin, [path for _, path in nodes_and_paths])
    candidates = []
    for stored, (node, path) in zip(sent, nodes_and_paths):
        step = next(filter(None, (layout.step_of(path) for layout in layouts)), None)
        if step is not None:
            candidates.append((stored, SetName(attempt, step.number), node))
    published = _published(documents, manifests) if candidates else set()
    for stored, name, node in candidates:
        if {(name.step, node), (name.step, None)} & published:
            continue
        state = documents.find(stored.key)
        if state is not None:
            yield Leftover(name, node, stored.key, stored.size, state.mtime_ns / 1e9)


def _layouts(begin: dict[str, Any], paths: Sequence[str]) -> Sequence[Layout]:
    """How the attempt names its files: in all known ways where they are too few to tell."""
    names = begin.get("checkpoint", [AUTO])
    try:
        layout = layout_by_name([str(name) for name in names]) or framework_of(paths)
    except (ValueError, TypeError):
        return ()
    return (layout,) if layout is not None else tuple(LAYOUTS.values())


def _published(documents: Documents, manifests: Sequence[str]) -> set[tuple[int, int | None]]:
    """The steps and nodes of which these are manifests; the node of a damaged one is None."""
    steps: set[tuple[int, int | None]] = set()
    for key in manifests:
        part = documents.place.part_of(key)
        try:
            manifest = read_part(documents.read(key))
            steps.add((manifest.name.step, manifest.node))
        except CheckpointDamaged:
            steps |= {(part.name.step, None)} if part is not None else set()
    return steps
