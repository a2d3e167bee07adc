"""Which steps on this node's disk are complete. Pure: looks at its files and times are passed in."""

from __future__ import annotations

from typing import AbstractSet, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from path_mapping.layouts import Layout, TrainingStep, completeness, layout_of
from path_mapping.localfs import FileState

LONGER = 6  # times as long as what is known to be complete must stay as it is what may not be

Files = Mapping[str, FileState]


class LocalStep(NamedTuple):
    """The files of a step, as they were at a look, in the order in which they are to be sent."""

    step: TrainingStep
    layout: Layout
    files: Dict[str, FileState]


class StepWatch:
    """Tells complete steps from those that are being written.

    `checkpoint` is the layout as a route names it, `ranks` are those of this node. A step must not change for
    `settle` seconds, or for longer if its names do not tell that it is complete. Files that are still as they
    were in `before`, when the attempt began, are none of its steps. A step that the training itself has
    `said` is complete.
    """

    def __init__(self, checkpoint: Sequence[str], ranks: Sequence[int], settle: float, before: Files) -> None:
        self.checkpoint = checkpoint
        self.ranks = ranks
        self.settle = settle
        self.before = before
        self.looked = 0.0
        self._before: Dict[TrainingStep, Sequence[str]] = {}  # the files of steps that were published
        self._seen: Dict[TrainingStep, Tuple[Dict[str, FileState], float]] = {}

    def layout(self, files: Files) -> Optional[Layout]:
        """The layout of these files, None if it is not known (yet)."""
        return layout_of(self.checkpoint, files)

    def steps(self, files: Files) -> Dict[TrainingStep, LocalStep]:
        """The steps that this attempt has written to, whole or not, the oldest first."""
        layout = self.layout(files)
        if layout is None:
            return {}
        new = [
            path
            for path, state in files.items()
            if self.before.get(path) != state and not layout.is_pointer(path)
        ]
        return {
            step: LocalStep(step, layout, {path: files[path] for path in layout.in_order(paths)})
            for step, paths in layout.steps(new).items()
        }

    def look(self, files: Files, now: float) -> None:
        """Takes note of the files at the time `now`, while the training runs."""
        found = self.steps(files)
        for step, local in found.items():
            if step not in self._seen or self._seen[step][0] != local.files:
                self._seen[step] = (local.files, now)
        for gone in set(self._seen) - set(found):
            del self._seen[gone]
        self.looked = now

    def is_strange(self, files: Files) -> bool:
        """Whether none of the files belongs to a step."""
        layout = self.layout(files)
        return layout is None or not any(layout.step_of(path) is not None for path in files)

    def published(self, local: LocalStep) -> None:
        """Takes note of a complete step: later ones look like it, also when it is on the disk no more."""
        self._before[local.step] = tuple(local.files)

    def complete(
        self, files: Files, said: AbstractSet[int] = frozenset(), ended_well: bool = False
    ) -> Tuple[List[LocalStep], Dict[TrainingStep, str]]:
        """The steps that are complete as they are in `files`, the oldest first, and why the others are not.

        `ended_well`: the training has ended with success, so that nothing is being written. If it ended in
        another way only what the last look has shown counts.
        """
        found = self.steps(files)
        paths = {**self._before, **{step: tuple(local.files) for step, local in found.items()}}
        whole: List[LocalStep] = []
        waiting: Dict[TrainingStep, str] = {}
        for step, local in found.items():
            state = completeness(local.layout, paths, step, self.ranks, ended_well)
            if step.number in said:
                whole.append(local)
            elif state.missing:
                waiting[step] = state.missing[0]
            elif ended_well or self._settled(local, state.sure):
                whole.append(local)
            else:
                waiting[step] = "it may still be written to"
        return whole, waiting

    def _settled(self, local: LocalStep, sure: bool) -> bool:
        known, since = self._seen.get(local.step, ({}, self.looked))
        return known == local.files and self.looked - since >= self.settle * (1 if sure else LONGER)
