"""What a start would do with the sets of an output: nothing is written, on the disk or in the store."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator, NamedTuple, Optional

from path_mapping.checkpoints.examine import SetsByHand
from path_mapping.checkpoints.local_files import local_files
from path_mapping.layouts import layout_of
from path_mapping.mapping import Route
from path_mapping.sets import CheckpointSet


class Foreseen(NamedTuple):
    """What becomes of a set in the store, or of the files of a step on the disk, and why.

    `action` is `restore`, `pass` (over), `remove`, or for files on the disk `keep`, `aside` or `stay`.
    """

    action: str
    name: str
    files: int
    size: int
    reason: str


def foreseen(sets: SetsByHand, route: Route, base: Path) -> Iterator[Foreseen]:
    """What the next start of a job would do, for all of its nodes.

    Raises `StoreError`, and `OSError` if the disk cannot be read.
    """
    chosen: Optional[CheckpointSet] = None
    if route.restore is not None:
        for row in sets.rows():
            if row.found is not None:
                chosen = row.found
                break
            yield Foreseen("pass", str(row.known.name), 0, 0, f"not whole: {row.why}")
        if chosen is None:
            yield Foreseen("restore", "nothing", 0, 0, "no set is whole: the training begins anew")
        else:
            yield Foreseen("restore", _name(chosen), chosen.files, chosen.size, "the newest whole set")
    yield from _of_disk(route, base, chosen)
    if route.keep is not None:
        for known in sets.superfluous(route.keep).whole:
            yield Foreseen(
                "remove",
                str(known.name),
                0,
                0,
                f"older than the newest {route.keep}: when a set of this start counts",
            )


def _name(found: CheckpointSet) -> str:
    return f"step {found.step} of {found.name.attempt}"


def _of_disk(route: Route, base: Path, chosen: Optional[CheckpointSet]) -> Iterator[Foreseen]:
    """The steps that are on the disk before the start: none of them is published by it."""
    here = local_files(route.path(base))
    of_set = {one.path: one.size for one in chosen.files_of(None)} if chosen else {}
    layout = layout_of(route.checkpoint, of_set or here)
    for step, paths in layout.steps(here).items() if layout else ():
        size = sum(here[path].size for path in paths)
        if route.restore is None:
            action, why = "stay", "a start publishes what it has written itself"
        elif all(of_set.get(path) == here[path].size for path in paths):
            action, why = "keep", "of the set that is restored, if the checksums are the same"
        else:
            action, why = "aside", "not of the set that is restored: moved beside the output"
        yield Foreseen(action, f"step {step.name} on this disk", len(paths), size, why)
