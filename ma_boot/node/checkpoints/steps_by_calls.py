"""Explicit steps of an output whose files may have any names: the times of calls and files decide. Pure.

Two ranks of a node, time from left to right, `|` is a call, `s10` and `s20` are files being saved:

    rank 0   ---s10---|------s20------|
    rank 1   ------s10------|-----s20-----|
                      ^     ^
                      first last call for step 10

A file of step 10 is not younger than the last call. One that is not younger than the first call is certain to
be of step 10; between the two calls rank 0 may already save step 20, and only there a number in a name
decides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set as AbstractSet

from ma_boot.node.checkpoints.calls import ANY_TIME, Calls, CallTimes
from ma_boot.node.checkpoints.layouts.layout import EPOCH, UNFINISHED, Layout, TrainingStep, matches
from ma_boot.node.checkpoints.layouts.step_names import LOGS, has_number, names_another_step
from ma_boot.node.checkpoints.records.keys import step_text
from ma_boot.node.checkpoints.steps import Decision, Disk, Files, NodeSteps, TakenStep
from path_mapping.localfs.source_file import FileState


def decide_by_calls(disk: Disk, known: NodeSteps, calls: Calls, layout: Layout | None = None) -> Decision:
    """Decides which explicit steps are complete on a node.

    A step has the files written since the last step that was taken, and before its call. `layout` is the one
    that the files seem to have: its pointers belong to no step. For an explicit step, `known.rested` has the
    files that changed while it was uploaded.
    """
    decision = Decision([], {}, set())
    taken = [taken for taken in known.taken.values() if taken.is_explicit]
    before, newest = (
        _collect_states(known.before, *(one.files for one in taken)),
        taken[-1].files if taken else {},
    )
    files = {path: state for path, state in disk.files.items() if _may_be_of_a_step(path, layout)}
    for number in sorted(calls.steps, key=lambda number: (calls.times_of(number).last, number)):
        version, last = calls.steps[number], known.taken.get(number)
        if known.has_taken(number, version):
            continue
        call = calls.times_of(number)
        changed = {path: state for path, state in files.items() if state not in before.get(path, ())}
        mine = _written_for(number, call, changed, known.ranks)
        later = {path for path, state in changed.items() if state.mtime_ns > call.last}
        step = TrainingStep(number, step_text(number))
        gone = known.removed(number, mine) | (later & newest.keys())
        reason = _why_torn(mine, gone, later, known.alone) or _find_bad_path(number, mine, disk.errors)
        if reason:
            decision.give_up(step, reason)
            continue
        newest = mine
        before = _collect_states(before, mine)
        # A new version has the unchanged files of the last one, too.
        if last is not None and last.is_explicit:
            mine = {**{path: state for path, state in last.files.items() if files.get(path) == state}, **mine}
        decision.complete.append(TakenStep(step, version, True, mine))
    for number, reason in calls.silent.items():
        decision.waiting[TrainingStep(number, step_text(number))] = reason
    return decision


def _written_for(number: int, call: CallTimes, changed: Files, ranks: Collection[int]) -> Files:
    """Returns the files that were written for an explicit step."""
    sure = {path: state for path, state in changed.items() if state.mtime_ns <= call.first}
    rest = {path for path, state in changed.items() if call.first < state.mtime_ns <= call.last}
    # Without times the names decide on all files.
    if call == ANY_TIME:
        sure, rest = {}, set(changed)
    named_otherwise = names_another_step(set(sure) | rest, number % EPOCH, ranks) & rest
    return {path: state for path, state in changed.items() if path in sure or path in rest - named_otherwise}


def _collect_states(*trees: Mapping[str, FileState | AbstractSet[FileState]]) -> dict[str, set[FileState]]:
    """Returns all states that files have in these trees."""
    states: dict[str, set[FileState]] = {}
    for files in trees:
        for path, state in files.items():
            states.setdefault(path, set()).update([state] if isinstance(state, FileState) else state)
    return states


def _may_be_of_a_step(path: str, layout: Layout | None) -> bool:
    is_pointer = layout is not None and layout.is_pointer(path)
    return not (is_pointer or matches(UNFINISHED, path) or matches(LOGS, path))


def _why_torn(files: Files, gone: AbstractSet[str], later: AbstractSet[str], alone: bool) -> str:
    """Returns the reason that the files of a step are not as they were at its call; empty if they are.

    `gone` were files of it that were removed or rewritten; `later` were written after the call.
    """
    if gone:
        return f"{min(gone)} was removed or written again before it was published"
    if not files and later:
        return f"{min(later)} was written again before it was taken"
    return "no file was written since the call before" if not files and alone else ""


def _find_bad_path(number: int, files: Files, errors: Mapping[str, str]) -> str:
    """Returns the problem of an unusable path that seems to belong to a step; empty if there is none."""
    directories = {path.rpartition("/")[0] for path in files} - {""}
    for path, problem in errors.items():
        if has_number(path, number % EPOCH) or path.rpartition("/")[0] in directories:
            return f"{path}: {problem}"
    return ""
