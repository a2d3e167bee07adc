"""Looks at an output on this node's disk while the training runs, and takes each step that is complete.

The layout is recognise again at each look: a framework may write the file that shows its layout last, and the
number that is the step shows with the second step.
"""

from __future__ import annotations

from collections.abc import Mapping, Set as AbstractSet
from pathlib import Path

from ma_boot.node.checkpoints.call_spool import CallSpool
from ma_boot.node.checkpoints.calls import Calls
from ma_boot.node.checkpoints.checkpoint_route import CheckpointRoute
from ma_boot.node.checkpoints.disk import FileHistory, Snapshot, Snapshots, Tree, read_pointers, tree
from ma_boot.node.checkpoints.layouts.layout import EPOCH, UNFINISHED, Layout, matches
from ma_boot.node.checkpoints.layouts.recognition import AUTO, recognise
from ma_boot.node.checkpoints.layouts.step_names import LOGS, has_number
from ma_boot.node.checkpoints.step_ledger import StepLedger
from ma_boot.node.checkpoints.steps import Decision, Disk, RunEnd, TakenStep, decide_by_calls_and_names
from ma_boot.node.checkpoints.steps_by_calls import decide_by_calls
from ma_boot.node.checkpoints.steps_by_files import decide_by_files
from ma_boot.node.checkpoints.watch_notices import WatchNotices
from path_mapping.localfs.source_file import FileChanged, FileState
from path_mapping.mapping.selection import selected


class StepWatch:
    """The steps of one node in one attempt. Methods are called by one thread at a time.

    `of_peers` are files that were restored here and belong to the parts of other nodes: as long as they are
    unchanged, they are not files of this node. `layout` is that of the checkpoint that was restored.
    """

    def __init__(
        self,
        target: CheckpointRoute,
        spool: Path,
        of_peers: AbstractSet[str] = frozenset(),
        layout: Layout | None = None,
    ) -> None:
        self.target = target
        self.layout = layout
        # As of the last look.
        self.decision = Decision([], {}, set())
        self.calls = CallSpool(spool, target.root, target.member.ranks, target.options.is_explicit)
        self._is_selected = selected(target.route.include, target.route.exclude) or (lambda path: True)
        files = self._select(tree(target.root), {}).files
        self._of_peers = {path: state for path, state in files.items() if path in of_peers}
        self._ledger = StepLedger({path: state for path, state in files.items() if path not in of_peers})
        self._history = FileHistory(target.root, target.rest_seconds)
        self._snapshots = Snapshots(target.root, target.say)
        self._notices = WatchNotices(target)
        # The times of calls, not names, tell which files belong to a step.
        self._by_calls = False
        # A process has died since the last look.
        self._has_died = False

    def cut(self) -> None:
        """Notes that a process has died: files that are not at rest by now may be incomplete.

        They never come to rest as they are. May be called from any thread; does not block.
        """
        self._has_died = True

    def take(self, ending: RunEnd | None = None) -> list[Snapshot]:
        """Takes the steps that have become complete since the last look, the oldest first."""
        # Read both before the disk: it then shows everything written before the death and before the calls.
        has_died, calls = self._has_died, self.calls.read()
        if has_died:
            self._has_died = False
        here = self._select(tree(self.target.root), self._of_peers)
        if has_died:
            self._history.cut(here)
        if ending is None:
            self._history.look(here)
        unclear = self._recognise(here)
        self._by_calls = calls is not None and self._is_auto
        if not self._by_calls:
            self._name_strangers(here, unclear, ending)
        if self.layout is None and not self._by_calls:
            return []
        self.decision = self._decide(here, calls, ending)
        if self._by_calls:
            self._notices.name_torn_steps(self.decision)
        return [snapshot for taken in self.decision.complete for snapshot in self._take(taken)]

    @property
    def _is_auto(self) -> bool:
        return tuple(self.target.options.layout) == (AUTO,)

    def _select(self, here: Tree, of_peers: Mapping[str, FileState]) -> Tree:
        """Returns the selected files of this node."""
        files = {
            path: state
            for path, state in here.files.items()
            if self._is_selected(path) and of_peers.get(path) != state
        }
        return Tree(files, {path: why for path, why in here.errors.items() if self._is_selected(path)})

    def _recognise(self, here: Tree) -> tuple[str, ...]:
        """Finds the layout of the files as they are; returns weights whose names show no step."""
        member = self.target.member
        # A number in a name may be that of a rank: `model_0.pt` of the job's first rank.
        ranks = {*member.ranks, *range(len(member.ranks))} if member.world_size > 1 else set()
        seen = self._history.seen(self._ledger.changed(here.files))
        found = recognise(self.target.options.layout, seen, ranks, self.target.rest_seconds)
        self.layout = found.layout or self.layout
        return found.unclear

    def _decide(self, here: Tree, calls: Calls | None, ending: RunEnd | None) -> Decision:
        target, layout, resting = self.target, self.layout, self._history.resting(here)
        ranks, savers = target.member.ranks, target.savers(layout)
        if calls is not None and self._is_auto:
            known = self._ledger.by_calls(ranks, alone=savers == (target.member.node,))
            return decide_by_calls(Disk(here.files, here.errors), known, calls, layout)
        assert layout is not None
        disk = Disk(here.files, here.errors, read_pointers(target.root, layout, here.files), resting)
        self._ledger = self._ledger.with_rested(layout, resting & set(self._ledger.changed(here.files)))
        known = self._ledger.by_names(ranks, layout, alone=len(savers) == 1)
        if calls is not None:
            return decide_by_calls_and_names(layout, disk, known, calls)
        return decide_by_files(layout, disk, known, ending)

    def _take(self, taken: TakenStep) -> list[Snapshot]:
        """Makes a snapshot of the step at this moment; none if it changes just now."""
        try:
            snapshot = self._snapshots.take(taken, self._rewritten_files(taken))
        except FileChanged as error:
            self.decision.waiting[taken.step] = str(error)
            return []
        self._ledger = self._ledger.with_taken(taken)
        return [snapshot]

    def _rewritten_files(self, taken: TakenStep) -> set[str]:
        """Returns the files that the next explicit step may overwrite: their names do not have the number."""
        if not (taken.is_explicit and self._is_auto):
            return set()
        return {path for path in taken.files if not has_number(path, taken.step.number % EPOCH)}

    def is_ordinary(self, path: str) -> bool:
        """Returns whether a file, relative to the output, is certain to be in no step."""
        if matches(UNFINISHED, path):
            return False
        if self._is_auto and (self._by_calls or self.layout is None):
            return matches(LOGS, path) or (self._notices.has_named_strangers and not self._by_calls)
        layout = self.layout
        return layout is None or not (layout.step_of(path) is not None or layout.is_pointer(path))

    def forget(self, taken: TakenStep) -> None:
        """Notes that a step has changed during its upload: it is taken anew when it is complete again."""
        if taken.is_explicit and self._is_auto:
            self._ledger = self._ledger.with_torn(taken)
        self._ledger = self._ledger.without(taken)

    def note_same_content(self, taken: TakenStep, published: TakenStep) -> None:
        """Notes that a step has the content of its `published` version, so it makes no new one."""
        self._ledger = self._ledger.with_same_content(taken, published)

    def _name_strangers(self, here: Tree, unclear: tuple[str, ...], ending: RunEnd | None) -> None:
        """Names files that belong to no step: once they are written the second time, or late."""
        layout, written = self.layout, self._ledger.changed(here.files)
        has_steps = layout is not None and any(map(layout.step_of, here.files))
        is_late = ending is not None or self._notices.is_late()
        files = [path for path in unclear if path in written] or ([] if has_steps else sorted(written))
        is_due = is_late or self._history.rewritten & set(unclear)
        if files and is_due and not self._notices.has_named_strangers:
            self._notices.name_strangers(files, self._is_auto)
