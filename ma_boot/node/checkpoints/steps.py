"""Complete steps of a node, by the files on its disk and the calls of its training. Pure.

Nothing is inferred from time: a file has to come to rest, but no pause ever makes a step complete.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ma_boot.node.checkpoints.calls import Calls
from ma_boot.node.checkpoints.layouts.layout import Layout, TrainingStep
from ma_boot.node.checkpoints.records.keys import step_text
from path_mapping.localfs.source_file import FileState

Files = Mapping[str, FileState]


class RunEnd(Enum):
    """End of the processes of a node; none of them writes any more.

    WELL: all with 0. BY_THEMSELVES: after a stop signal, each with 0 or as a handler of the signal ends it,
    so none was killed while it wrote. CUT: any other way.
    """

    WELL = "ended well"
    BY_THEMSELVES = "ended by themselves"
    CUT = "were cut off"


@dataclass(frozen=True)
class Disk:
    """Snapshot of an output's directory.

    `files` have their states, `errors` has the problem of each unusable path (a link out of the output),
    `pointers` are the contents of files that name a step, `resting` are the files that have not changed for
    long enough.
    """

    files: Files
    errors: Mapping[str, str] = field(default_factory=dict)
    pointers: Mapping[str, str] = field(default_factory=dict)
    resting: AbstractSet[str] = frozenset()


@dataclass(frozen=True)
class TakenStep:
    """A complete step that was taken: its version, and the states of its files at that moment."""

    step: TrainingStep
    version: int
    is_explicit: bool
    files: Files


@dataclass(frozen=True)
class NodeSteps:
    """The node's knowledge of its steps before a look at the disk: `ranks` are its own.

    `before` are the files at the beginning of the attempt: restored, or left by an earlier start. `taken` has
    the newest version of each step that was taken, by number. `shape` are the names, without numbers, of the
    last complete step, None if there was none. `rested` are the files that have come to rest in this attempt,
    by the number of their step. `alone`: no other node saves.
    """

    ranks: Collection[int]
    before: Files = field(default_factory=dict)
    taken: Mapping[int, TakenStep] = field(default_factory=dict)
    shape: AbstractSet[str] | None = None
    rested: Mapping[int, AbstractSet[str]] = field(default_factory=dict)
    alone: bool = True

    def has_taken(self, number: int, version: int) -> bool:
        """Returns whether this version of an explicit step was taken, or a newer one."""
        taken = self.taken.get(number)
        return taken is not None and taken.is_explicit and taken.version >= version

    def removed(self, number: int, files: Collection[str]) -> set[str]:
        """Returns the files of a step that had come to rest and are not among `files` any more."""
        return set(self.rested.get(number, frozenset())) - set(files)


class Decision(NamedTuple):
    """The steps to take, the oldest first, and the reasons that others wait.

    `lost` are the waiting steps whose files are in no checkpoint if nothing more is written.
    """

    complete: list[TakenStep]
    waiting: dict[TrainingStep, str]
    lost: set[TrainingStep]

    def give_up(self, step: TrainingStep, reason: str) -> None:
        """Adds a step that will not be published."""
        self.waiting[step] = reason
        self.lost.add(step)


def group_by_step(layout: Layout, files: Files) -> dict[TrainingStep, Files]:
    """Returns the files of each step, the oldest step first, in the order in which they are uploaded."""
    paths_by_step = layout.steps(path for path in files if not layout.is_pointer(path))
    return {
        step: {path: files[path] for path in layout.in_order(paths) if path in files}
        for step, paths in paths_by_step.items()
    }


def find_changed(steps: Mapping[TrainingStep, Files], before: Files) -> list[TrainingStep]:
    """Returns the steps with a file that is not as it was at the beginning of the attempt."""
    return [step for step, files in steps.items() if any(before.get(p) != s for p, s in files.items())]


def find_broken(layout: Layout, errors: Mapping[str, str]) -> dict[TrainingStep, str]:
    """Returns the steps with an unusable path, and its problem."""
    by_path = {path: layout.step_at(path) for path in errors}
    return {step: f"{path}: {errors[path]}" for path, step in by_path.items() if step is not None}


def decide_by_calls_and_names(layout: Layout, disk: Disk, known: NodeSteps, calls: Calls) -> Decision:
    """Decides on explicit steps where a pattern or a framework's names tell which files belong to a step.

    A step is taken again each time that all ranks have called for it again.
    """
    decision = Decision([], {}, set())
    steps, broken = group_by_step(layout, disk.files), find_broken(layout, disk.errors)
    changed = find_changed(steps, known.before)
    for step, problem in broken.items():
        decision.waiting[step] = problem
        if step.number not in known.taken and not set(steps.get(step, ())) & set(known.before):
            decision.lost.add(step)
    on_disk = {step.number: step for step in steps}
    for number, version in calls.steps.items():
        step = on_disk.get(number, TrainingStep(number, step_text(number)))
        if step in broken or known.has_taken(number, version):
            continue
        files = steps.get(step, {})
        removed = known.removed(number, files)
        if removed or (not files and known.rested):
            decision.give_up(step, f"{min(removed, default='what it had')} was removed before it was taken")
        else:
            decision.complete.append(TakenStep(step, version, True, files))
    decision.complete.sort(key=lambda taken: taken.step)
    _give_up_uncalled(changed, calls, known, decision, broken)
    return decision


def _give_up_uncalled(
    changed: Sequence[TrainingStep],
    calls: Calls,
    known: NodeSteps,
    decision: Decision,
    broken: Collection[TrainingStep],
) -> None:
    for step in changed:
        if step.number not in calls.steps and step not in broken and step.number not in known.taken:
            reason = calls.silent.get(step.number, "no rank has called checkpoint for it")
            decision.give_up(step, reason)
