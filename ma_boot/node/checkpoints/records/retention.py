"""Removal of superseded checkpoints, and of files whose step was never published.

A manifest is deleted before the files that it names, so no reader ever sees a manifest without its files.
Files without a manifest are removed only if ma_boot has uploaded them: they are below the directory of an
attempt, whose random tag is in a document of ma_boot, and have the name of a file of a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Callable, NamedTuple

from ma_boot.errors import CheckpointDamaged
from ma_boot.node.checkpoints.layouts.layout import Layout
from ma_boot.node.checkpoints.layouts.recognition import AUTO, LAYOUTS, framework_of, layout_by_name
from ma_boot.node.checkpoints.records.documents import Documents
from ma_boot.node.checkpoints.records.keys import Attempt, CheckpointName, ListedCheckpoint
from ma_boot.node.checkpoints.records.manifest import Part, read_part
from path_mapping.localfs.names import name_problem
from path_mapping.stores.objects import StoredObject


class Superfluous(NamedTuple):
    """Checkpoints to remove: replaced `complete` ones, and `incomplete` ones that will stay so."""

    complete: list[ListedCheckpoint]
    incomplete: list[ListedCheckpoint]

    @property
    def all(self) -> list[ListedCheckpoint]:
        """All of them."""
        return [*self.complete, *self.incomplete]


def find_superfluous(
    listed: Sequence[ListedCheckpoint], keep: int | None, spared: Iterable[CheckpointName]
) -> Superfluous:
    """Returns the checkpoints to remove so that the newest `keep` complete ones stay, or all. Pure.

    `listed` are the newest first; the `spared` ones stay too. An older version of a step goes when a newer
    one is complete. An incomplete checkpoint goes when a newer version of its step is complete, or when its
    attempt is over: a later attempt has a complete one.
    """
    complete: list[ListedCheckpoint] = []
    newest_of: dict[tuple[Attempt, int], ListedCheckpoint] = {}
    for one in listed:
        if one.is_complete and newest_of.setdefault((one.name.attempt, one.name.step), one) is one:
            complete.append(one)
    stay = {one.name for one in complete[: None if keep is None else max(1, keep)]} | set(spared)
    last = max((one.name.attempt.number for one in complete), default=0)
    result = Superfluous([], [])
    for one in listed:
        newer = newest_of.get((one.name.attempt, one.name.step))
        if one.is_complete and one.name not in stay:
            result.complete.append(one)
        elif not one.is_complete and (
            one.name.attempt.number < last or (newer and newer.name.order > one.name.order)
        ):
            result.incomplete.append(one)
    return result


def remove_checkpoint(
    documents: Documents, listed: ListedCheckpoint, others: Sequence[ListedCheckpoint] = ()
) -> None:
    """Removes a checkpoint: its manifests first, then the files that they name.

    Files that `others` name, versions of the same step, stay. A note of the keys to delete is written first,
    so that `finish_removals` can continue if this process is killed. Raises `StoreError` and `Cancelled`.
    """
    place = documents.place
    manifests = [place.part(part) for part in listed.parts]
    files = _files(documents, listed)
    for other in others:
        if (other.name.attempt, other.name.step) == listed.name[:2] and other.name != listed.name:
            files -= _files(documents, other)
    note = {"format": 1, "manifests": manifests, "files": sorted(files)}
    documents.write(place.removal(listed.name), note)
    _finish(documents, place.removal(listed.name), manifests, files=sorted(files))


def finish_removals(documents: Documents) -> None:
    """Finishes interrupted removals. Raises `StoreError` and `Cancelled`."""
    place = documents.place
    for key in list(documents.keys(place.removals)):
        note = documents.read(key)
        if isinstance(note, dict):
            manifests = [name for name in note.get("manifests", ()) if str(name).startswith(place.manifests)]
            files = [name for name in note.get("files", ()) if str(name).startswith("attempt-")]
            _finish(documents, key, manifests, files=files)


def _files(documents: Documents, listed: ListedCheckpoint) -> set[str]:
    """Returns the keys of a checkpoint's files, below the prefix; those of damaged manifests are unknown."""
    names: set[str] = set()
    for part in listed.parts:
        document = documents.read(documents.place.part(part))
        with suppress(CheckpointDamaged):
            manifest: Part = read_part(document)
            names |= {file.key for file in manifest.files if manifest.name == listed.name}
    return names


def _finish(documents: Documents, note: str, manifests: Sequence[str], files: Sequence[str]) -> None:
    for key in manifests:
        documents.delete(key)
    for name in files:
        if name_problem(name) is None:
            documents.delete(documents.place.prefix + name)
    documents.delete(note)


class Leftover(NamedTuple):
    """A file of a step that was never published.

    `key` is the complete key, `size` is in bytes, `stored` is Unix time in seconds by the store's clock.
    """

    name: CheckpointName
    node: int
    key: str
    size: int
    stored: float


def find_leftovers(documents: Documents, is_over: Callable[[Attempt], bool]) -> list[Leftover]:
    """Returns the files of attempts that are over which no manifest names.

    Takes two listings, and a request for each manifest of an attempt that has files. The files are listed
    before the manifests: so a step that is published meanwhile is safe. Raises `StoreError` and `Cancelled`.
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
    for key in documents.keys(place.manifests):
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
        # The directory is not one of ma_boot.
        return
    nodes_and_paths = [place.path_of_file(stored.key, attempt, begin["nodes"]) for stored in sent]
    layouts = _layouts(begin, [path for _, path in nodes_and_paths])
    candidates = []
    for stored, (node, path) in zip(sent, nodes_and_paths):
        step = next(filter(None, (layout.step_of(path) for layout in layouts)), None)
        if step is not None:
            candidates.append((stored, CheckpointName(attempt, step.number), node))
    published = _published(documents, manifests) if candidates else set()
    for stored, name, node in candidates:
        if {(name.step, node), (name.step, None)} & published:
            continue
        state = documents.find(stored.key)
        if state is not None:
            yield Leftover(name, node, stored.key, stored.size, state.mtime_ns / 1e9)


def _layouts(begin: dict[str, Any], paths: Sequence[str]) -> Sequence[Layout]:
    """Returns the layout of the attempt's files, or all known ones where there are too few files to tell."""
    names = begin.get("layout", [AUTO])
    try:
        layout = layout_by_name([str(name) for name in names]) or framework_of(paths)
    except (ValueError, TypeError):
        return ()
    return (layout,) if layout is not None else tuple(LAYOUTS.values())


def _published(documents: Documents, manifests: Sequence[str]) -> set[tuple[int, int | None]]:
    """Returns the steps and nodes of these manifests; the node of a damaged one is None."""
    steps: set[tuple[int, int | None]] = set()
    for key in manifests:
        part = documents.place.part_of(key)
        try:
            manifest = read_part(documents.read(key))
            steps.add((manifest.name.step, manifest.member.node))
        except CheckpointDamaged:
            steps |= {(part.name.step, None)} if part is not None else set()
    return steps
