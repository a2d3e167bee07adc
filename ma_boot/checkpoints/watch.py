"""Looks at an output on this node's disk while the training runs, and takes each step that is complete."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import AbstractSet, Dict, List, Optional, Set, Tuple

from ma_boot.checkpoints.disk import Tree, own_directory, pointers, tree
from ma_boot.checkpoints.layout import Layout, TrainingStep
from ma_boot.checkpoints.layouts import layout_of
from ma_boot.checkpoints.publication import Publication
from ma_boot.checkpoints.snapshots import Snapshot, take_snapshot
from ma_boot.checkpoints.steps import Decision, Disk, NodeSteps, Notes, RunEnd, Taken, decide, read_notes
from path_mapping.localfs import FileChanged, FileState
from path_mapping.mapping import selected
from path_mapping.transfer import open_for_writing

STRANGE_SECONDS = 600.0  # without a file of any step, until somebody is told


class StepWatch:
    """The steps of one node in one attempt, whole or not; used by one thread at a time.

    `of_others` are files that were restored here and are of the parts of other nodes: as long as they are as
    they were, they are no files of this node.
    """

    def __init__(self, what: Publication, spool: Path, of_others: AbstractSet[str] = frozenset()) -> None:
        self.what = what
        self.spool = spool
        self.waiting: Dict[TrainingStep, str] = {}  # why steps are not complete, as of the last look
        self.lost: Set[TrainingStep] = set()  # the waiting steps that would never be published
        self.layout: Optional[Layout] = None
        self._selected = selected(what.way.include, what.way.exclude)
        self._others: Dict[str, FileState] = {}
        files = self._tree().files
        self._others = {path: state for path, state in files.items() if path in of_others}
        self._before = {path: state for path, state in files.items() if path not in of_others}
        self._taken: Dict[int, List[Taken]] = {}
        self._shape: Optional[Set[str]] = None
        self._rested: Dict[int, Set[str]] = {}
        self._seen: Dict[str, Tuple[FileState, float]] = {}
        self._has_died = False  # a process, since the last look
        self._cut: Dict[str, FileState] = {}  # what had not come to rest by then
        self._looked = self._began = time.monotonic()
        self._are_strangers_named = self._is_place_told = False
        self._number = 0
        self._sizes: Dict[Path, int] = {}

    def has_new_notes(self) -> bool:
        """Whether the training has said something since the last call."""
        sizes = {}
        for file in self.spool.glob("*.jsonl"):
            with suppress(OSError):
                sizes[file] = file.stat().st_size
        has_grown, self._sizes = sizes != self._sizes, sizes
        return has_grown

    def cut(self) -> None:
        """A process has died: what has not come to rest by now may be half of what it was writing.

        It never comes to rest as it is. From any thread, without a wait.
        """
        self._has_died = True

    def take(self, ending: Optional[RunEnd] = None) -> List[Snapshot]:
        """The steps that have become complete since the last look, the oldest first."""
        has_died = self._has_died
        if has_died:
            self._has_died = False  # before the look at the disk: it shows what has been written by then
        here = self._tree()
        if has_died:
            resting = self._resting(here)
            self._cut.update((path, state) for path, state in here.files.items() if path not in resting)
        if ending is None:
            self._see(here)
        self.layout = layout = layout_of(self.what.options.layout, here.files) or self.layout
        if ending is not None or time.monotonic() - self._began > STRANGE_SECONDS:
            self._name_strangers(here)
        if layout is None:
            return []
        decision = self._decide(layout, here, ending)
        self.waiting, self.lost = decision.waiting, decision.lost
        return [snapshot for snapshot in map(self._snapshot_of, decision.complete) if snapshot is not None]

    def _see(self, here: Tree) -> None:
        """Takes note of since when files are as they are; of one that is still open, that is now."""
        resting, self._looked = self._resting(here), time.monotonic()
        self._seen = {
            path: self._seen[path] if self._seen.get(path, (None,))[0] == state else (state, self._looked)
            for path, state in here.files.items()
        }
        rested = self._resting(here) - resting
        if rested:
            written = open_for_writing([self.what.root])
            for path in rested:
                if str(self.what.root / path) in written:
                    self._seen[path] = (here.files[path], self._looked)

    def _resting(self, here: Tree) -> Set[str]:
        """The files that had not changed for long enough when they were last looked at, nor have since."""
        return {
            path
            for path, (state, since) in self._seen.items()
            if here.files.get(path) == state
            and self._looked - since >= self.what.rest_seconds
            and self._cut.get(path) != state
        }

    def _decide(self, layout: Layout, here: Tree, ending: Optional[RunEnd]) -> Decision:
        what, resting = self.what, self._resting(here)
        disk = Disk(here.files, here.errors, pointers(what.root, layout, here.files), resting)
        for step, paths in layout.steps(
            path for path in resting if self._before.get(path) != here.files[path]
        ).items():
            self._rested.setdefault(step.number, set()).update(paths)
        newest = {number: takes[-1] for number, takes in self._taken.items()}
        alone = len(what.savers(layout)) == 1
        known = NodeSteps(what.start.ranks, self._before, newest, self._shape, self._rested, alone)
        return decide(layout, disk, known, self._notes(), ending)

    def _snapshot_of(self, taken: Taken) -> Optional[Snapshot]:
        """The step as it is at this moment; None if it changes just now."""
        self._number += 1
        directory = own_directory(self.what.root, "sending") / str(self._number)
        try:
            snapshot = take_snapshot(taken, self.what.root, directory)
        except FileChanged as error:
            self.waiting[taken.step] = str(error)
            return None
        except OSError as error:
            if not self._is_place_told:
                self._is_place_told = True
                self.what.say(
                    f"checkpoints: from step {taken.step.name} on, steps are sent from where the training "
                    f"has them, as no snapshot can be made ({error.strerror}): one that is removed meanwhile "
                    "is lost"
                )
            snapshot = Snapshot(taken, self.what.root, taken.files, linked=True, in_place=True)
        self._taken.setdefault(taken.step.number, []).append(taken)
        if taken.files and self.layout is not None:
            self._shape = {self.layout.shape(path) for path in taken.files}
        return snapshot

    def forget(self, taken: Taken) -> None:
        """It has changed while it was sent: it is taken anew when it is complete again."""
        with suppress(ValueError):
            self._taken.get(taken.step.number, []).remove(taken)
        if not self._taken.get(taken.step.number):
            self._taken.pop(taken.step.number, None)

    def same_again(self, taken: Taken, before: Taken) -> None:
        """It has the content that it had `before`, so it makes no new version."""
        self.forget(taken)
        self.forget(before)
        self._taken.setdefault(taken.step.number, []).append(
            Taken(before.step, before.version, before.by_word, taken.files)
        )

    def _notes(self) -> Optional[Notes]:
        """What the training says, None as long as nothing is to be said."""
        texts = []
        for file in sorted(self.spool.glob("*.jsonl")):
            with suppress(OSError):
                texts.append(file.read_text(encoding="utf-8", errors="replace"))
        notes = read_notes(texts, self.what.start.ranks, os.path.realpath(self.what.root))
        return Notes({}, {}) if notes is None and self.what.options.said else notes

    def _tree(self) -> Tree:
        here, wanted = tree(self.what.root), self._selected or (lambda path: True)
        return Tree(
            {
                path: state
                for path, state in here.files.items()
                if wanted(path) and self._others.get(path) != state
            },
            {path: why for path, why in here.errors.items() if wanted(path)},
        )

    def _name_strangers(self, here: Tree) -> None:
        """Prints once that the output has files, and that none of them belongs to a step."""
        layout = self.layout
        if self._are_strangers_named or not here.files:
            return
        if not (layout and any(map(layout.step_of, here.files))):
            self._are_strangers_named = True
            self.what.say(
                f"checkpoints: none of the {len(here.files)} files in {self.what.root} is one of a "
                f"checkpoint as {' '.join(self.what.options.layout)!r} has them: they are uploaded "
                "one by one; name another layout, or a pattern"
            )
