"""Looks at an output on this node's disk while the training runs, and takes each step that is complete.

The layout is found again at each look: a framework may write the file that tells its layout last, and the
number that is the step shows with the second step.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence, Set as AbstractSet
from contextlib import suppress
from pathlib import Path

from ma_boot.node.checkpoints.disk import (
    FileHistory,
    Snapshot,
    Tree,
    own_directory,
    pointers,
    take_snapshot,
    tree,
)
from ma_boot.node.checkpoints.layout import EPOCH, UNFINISHED, Layout, TrainingStep, matches
from ma_boot.node.checkpoints.layouts import AUTO, recognised
from ma_boot.node.checkpoints.publication import Publication
from ma_boot.node.checkpoints.step_names import LOGS, has_number
from ma_boot.node.checkpoints.steps import (
    Decision,
    Disk,
    NodeSteps,
    Notes,
    RunEnd,
    Taken,
    decide,
    decide_by_calls,
    read_notes,
)
from ma_boot.wording import list_first
from path_mapping.localfs.source_file import FileChanged, FileState
from path_mapping.mapping.selection import selected

STRANGE_SECONDS = 600.0  # without a file of any step, until a line says so
MOST_NAMED = 3  # files in such a line


class StepWatch:
    """The steps of one node in one attempt, whole or not; used by one thread at a time.

    `of_others` are files that were restored here and are of the parts of other nodes: as long as they are as
    they were, they are no files of this node. `layout` is that of the set that was restored.
    """

    def __init__(
        self,
        what: Publication,
        spool: Path,
        of_others: AbstractSet[str] = frozenset(),
        layout: Layout | None = None,
    ) -> None:
        self.what = what
        self.spool = spool
        self.waiting: dict[TrainingStep, str] = {}  # why steps are not complete, as of the last look
        self.lost: set[TrainingStep] = set()  # the waiting steps that would never be published
        self.layout = layout
        self._selected = selected(what.way.include, what.way.exclude)
        self._others: dict[str, FileState] = {}
        files = self._tree().files
        self._others = {path: state for path, state in files.items() if path in of_others}
        self._before = {path: state for path, state in files.items() if path not in of_others}
        self._taken: dict[int, list[Taken]] = {}
        self._newest: Taken | None = None  # the last step that was taken, and has files
        self._rested: dict[int, set[str]] = {}
        self._history = FileHistory(what.root, what.rest_seconds)
        self._torn: dict[int, set[str]] = {}  # files of explicit steps that changed while they were sent
        self._told: set[int] = set()  # explicit steps whose loss was reported
        self._by_calls = False  # the training says which step its files are of
        self._has_died = False  # a process, since the last look
        self._began = time.monotonic()
        self._are_strangers_named = self._is_place_told = False
        self._number = 0
        self._sizes: dict[Path, int] = {}

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

    def take(self, ending: RunEnd | None = None) -> list[Snapshot]:
        """The steps that have become complete since the last look, the oldest first."""
        # Both before the look at the disk, which then shows what was written by the death and by the calls.
        has_died, notes = self._has_died, self._notes()
        if has_died:
            self._has_died = False
        here = self._tree()
        if has_died:
            self._history.cut(here)
        if ending is None:
            self._history.look(here)
        unclear = self._recognise(here)
        self._by_calls = by_calls = notes is not None and self._is_auto
        if not by_calls:
            self._report_unclear(here, unclear, ending)
        if self.layout is None and not by_calls:
            return []
        decision = self._decide(here, notes, ending)
        self.waiting, self.lost = decision.waiting, decision.lost
        if by_calls:
            self._report_torn(decision)
        return [snapshot for snapshot in map(self._snapshot_of, decision.complete) if snapshot is not None]

    @property
    def _is_auto(self) -> bool:
        return tuple(self.what.options.layout) == (AUTO,)

    def _recognise(self, here: Tree) -> tuple[str, ...]:
        """Finds the layout of the files as they are; returns weights whose names show no step."""
        start = self.what.start
        # A name with the number of a rank may be that of a rank: `model_0.pt` of the job's first rank.
        ranks = {*start.ranks, *range(len(start.ranks))} if start.world > 1 else set()
        written = {path: state for path, state in here.files.items() if self._before.get(path) != state}
        seen = self._history.seen(written)
        found = recognised(self.what.options.layout, seen, ranks, self.what.rest_seconds)
        self.layout = found.layout or self.layout
        return found.unclear

    def _decide(self, here: Tree, notes: Notes | None, ending: RunEnd | None) -> Decision:
        what, layout, resting = self.what, self.layout, self._history.resting(here)
        newest = {number: takes[-1] for number, takes in self._taken.items()}
        savers = what.savers(layout)
        if notes is not None and self._is_auto:
            alone = savers == (what.start.node,)
            known = NodeSteps(what.start.ranks, self._before, newest, rested=self._torn, alone=alone)
            return decide_by_calls(Disk(here.files, here.errors), known, notes, layout)
        assert layout is not None
        disk = Disk(here.files, here.errors, pointers(what.root, layout, here.files), resting)
        for step, paths in layout.steps(
            path for path in resting if self._before.get(path) != here.files[path]
        ).items():
            self._rested.setdefault(step.number, set()).update(paths)
        known = NodeSteps(
            what.start.ranks,
            self._before,
            newest,
            shape=self._shape(layout),
            rested=self._rested,
            alone=len(savers) == 1,
        )
        return decide(layout, disk, known, notes, ending)

    def _shape(self, layout: Layout) -> set[str] | None:
        """The names of the last step that was complete, without their numbers; None if there was none."""
        if self._newest is None:
            return None
        return {layout.shape(path) for path in self._newest.files if layout.step_of(path) is not None} or None

    def _snapshot_of(self, taken: Taken) -> Snapshot | None:
        """The step as it is at this moment; None if it changes just now."""
        self._number += 1
        directory = own_directory(self.what.root, "sending") / str(self._number)
        try:
            snapshot = take_snapshot(taken, self.what.root, directory, self._in_place(taken))
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
        if taken.files:
            self._newest = taken
        return snapshot

    def _in_place(self, taken: Taken) -> set[str]:
        """The files of an explicit step that the next one may write again: their names have no number."""
        if not (taken.by_word and self._is_auto):
            return set()
        return {path for path in taken.files if not has_number(path, taken.step.number % EPOCH)}

    def is_ordinary(self, path: str) -> bool:
        """Returns whether a file, relative to the output, is certain to be in no step."""
        if matches(UNFINISHED, path):
            return False
        if self._is_auto and (self._by_calls or self.layout is None):
            return matches(LOGS, path) or (self._are_strangers_named and not self._by_calls)
        layout = self.layout
        return layout is None or not (layout.step_of(path) is not None or layout.is_pointer(path))

    def forget(self, taken: Taken) -> None:
        """It has changed while it was sent: it is taken anew when it is complete again."""
        if taken.by_word and self._is_auto:
            self._torn.setdefault(taken.step.number, set()).update(taken.files)
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

    def _notes(self) -> Notes | None:
        """The calls of the training, None as long as there is none and none is required."""
        texts = []
        for file in sorted(self.spool.glob("*.jsonl")):
            with suppress(OSError):
                texts.append(file.read_text(encoding="utf-8", errors="replace"))
        notes = read_notes(texts, self.what.start.ranks, os.path.realpath(self.what.root))
        if notes is None:
            return Notes({}, {}) if self.what.options.said else None
        return notes if self._has_one_clock() else notes._replace(times={})

    def _has_one_clock(self) -> bool:
        """Returns whether calls and files of the output have times of one clock."""
        with suppress(OSError):
            return os.stat(self.spool).st_dev == os.stat(self.what.root).st_dev
        return False

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

    def _report_unclear(self, here: Tree, unclear: Sequence[str], ending: RunEnd | None) -> None:
        """Prints once that files belong to no step: when they are written the second time, or late."""
        layout, written = self.layout, [p for p, state in here.files.items() if self._before.get(p) != state]
        has_steps = layout is not None and any(map(layout.step_of, here.files))
        is_late = ending is not None or time.monotonic() - self._began > STRANGE_SECONDS
        files = [path for path in unclear if path in written] or ([] if has_steps else sorted(written))
        if self._are_strangers_named or not files or not (is_late or self._history.rewritten & set(unclear)):
            return
        self._are_strangers_named = True
        names = " ".join(self.what.options.layout)
        how = "show no step" if self._is_auto else f"are none of a step as {names!r} has them"
        self.what.say(
            f"checkpoints: the names of {list_first(files, MOST_NAMED)} in {self.what.way.local} "
            f"{how}, so these files are in no checkpoint and no start resumes from them; they are "
            "uploaded as ordinary files. Call ma_boot.training.checkpoint(step) when a step is saved, or "
            "write a pattern, as in 'checkpoint': 'step_{step}'"
        )

    def _report_torn(self, decision: Decision) -> None:
        """Prints once of each explicit step that cannot be published."""
        for step, why in decision.waiting.items():
            if step in decision.lost and step.number not in self._told:
                self._told.add(step.number)
                self.what.say(f"checkpoint({step.name}) is not published: {why}")
