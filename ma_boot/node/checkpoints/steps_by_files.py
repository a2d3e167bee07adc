"""Completeness of steps by their files alone, where the training does not call `checkpoint`. Pure.

Each rule is a function that returns the reason that a step is not complete, and an empty text if it has no
objection. A step is complete if no rule of `_RULES` has one.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Callable, NamedTuple

from ma_boot.node.checkpoints.layouts.frameworks import FILE, NUMBERED
from ma_boot.node.checkpoints.layouts.layout import (
    EPOCH,
    Layout,
    Mark,
    TrainingStep,
    compile_expression,
    matches,
)
from ma_boot.node.checkpoints.steps import (
    Decision,
    Disk,
    Files,
    NodeSteps,
    RunEnd,
    TakenStep,
    find_broken,
    find_changed,
    group_by_step,
)

# Reason of a step that has been taken as it is: there is nothing to do or to report.
_UNCHANGED = "nothing has changed since it was taken"
_SHARD = re.compile(r"(.*-)(\d+)(-of-)(\d+)(\D.*)", re.DOTALL)


class _Candidate(NamedTuple):
    """A step that may be complete, with everything that the rules look at."""

    layout: Layout
    step: TrainingStep
    steps: dict[TrainingStep, Files]
    disk: Disk
    known: NodeSteps
    ending: RunEnd | None

    @property
    def files(self) -> Files:
        """The files of the step, as they are now."""
        return self.steps[self.step]

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The marks that this node has to have: rank 0 writes them."""
        return self.layout.marks if 0 in self.known.ranks else ()

    @property
    def shape(self) -> set[str]:
        """The names of its files without the numbers of the step."""
        return {self.layout.shape(path) for path in self.files}


def decide_by_files(layout: Layout, disk: Disk, known: NodeSteps, ending: RunEnd | None = None) -> Decision:
    """Decides which steps are complete on a node."""
    decision = Decision([], {}, set())
    steps, broken = group_by_step(layout, disk.files), find_broken(layout, disk.errors)
    for step in {**dict.fromkeys(find_changed(steps, known.before)), **broken}:
        candidate = _Candidate(layout, step, steps, disk=disk, known=known, ending=ending)
        reason = broken.get(step) or _find_reason(candidate)
        if reason == _UNCHANGED:
            continue
        if reason:
            decision.waiting[step] = reason
            if step.number not in known.taken and not set(steps.get(step, ())) & set(known.before):
                decision.lost.add(step)
            continue
        version = known.taken[step.number].version + 1 if step.number in known.taken else 1
        decision.complete.append(TakenStep(step, version, False, steps[step]))
    decision.complete.sort(key=lambda taken: taken.step)
    return decision


def _find_reason(candidate: _Candidate) -> str:
    """Returns the objection of the first rule that has one; empty if the step is complete."""
    return next(filter(None, (rule(candidate) for rule in _RULES)), "")


def _check_rewritten(candidate: _Candidate) -> str:
    """A step that was restored or taken before is taken again only if all its files are new."""
    files, known = candidate.files, candidate.known
    taken = known.taken.get(candidate.step.number)
    old = known.before if taken is None else taken.files
    changed = [path for path, state in files.items() if path in old and old[path] != state]
    same = [path for path in files if path in old and old[path] == files[path]]
    added = [path for path in files if path not in old]
    if taken is None:
        return f"{same[0]} is of an earlier start, {(changed + added)[0]} is not" if same else ""
    # With several savers a file that is added later makes no version: the peers could not know of it.
    if not changed and (not added or not known.alone):
        return _UNCHANGED
    if set(old) - set(files):
        return _UNCHANGED  # the framework is removing the step
    return f"{changed[0]} was rewritten since, {same[0]} was not" if changed and same else ""


def _check_removed(candidate: _Candidate) -> str:
    """No file that had come to rest is missing: the framework's rotation may be removing the step."""
    removed = candidate.known.removed(candidate.step.number, candidate.files)
    return f"{min(removed)} was removed" if removed else ""


def _check_unfinished(candidate: _Candidate) -> str:
    """No file has a name of unfinished files."""
    unfinished = [path for path in candidate.files if candidate.layout.is_unfinished(path)]
    return f"{unfinished[0]} is being written" if unfinished else ""


def _check_strangers(candidate: _Candidate) -> str:
    """With the layout `file`, no file beside the step has its number and a name that means nothing to it."""
    layout, files = candidate.layout, candidate.files
    if layout is not FILE:
        return ""
    directories = {path.rpartition("/")[0] for path in files}
    for path in candidate.disk.files:
        hit = compile_expression(NUMBERED).fullmatch(path)
        is_beside = path.rpartition("/")[0] in directories and layout.step_of(path) is None
        if is_beside and hit and int(hit["step"]) == candidate.step.number % EPOCH:
            return f"is {path} a part of it, beside {next(iter(files))}? Name both by patterns"
    return ""


def _check_needs(candidate: _Candidate) -> str:
    """The node of rank 0 has the files that its layout needs there."""
    needs = candidate.layout.needs if 0 in candidate.known.ranks else ()
    for need in needs:
        if not any(matches(need.expression, path) for path in candidate.files):
            return f"no {need.name}"
    return ""


def _check_ranks(candidate: _Candidate) -> str:
    """Each rank of the node has its files."""
    ranks = candidate.known.ranks
    for expression in candidate.layout.each_rank:
        found, count = _find_ranks(expression, candidate.files)
        lacking = sorted(set(ranks) - found) if found else []
        has_rank_in_name = "rank" in compile_expression(expression).groupindex
        if has_rank_in_name and (lacking or not count):
            return f"no file of rank {min(lacking or ranks, default=0)}"
        if not has_rank_in_name and 0 < count < len(ranks):
            return f"optimizer states of {count} of {len(ranks)} ranks"
    return ""


def _find_ranks(expression: str, files: Files) -> tuple[set[int], int]:
    """Returns the ranks in the names of the files that match, and the number of these files."""
    hits = [hit for path in files for hit in [compile_expression(expression).fullmatch(path)] if hit]
    ranks = (hit.groupdict().get("rank") for hit in hits)
    return {int(rank) for rank in ranks if rank is not None}, len(hits)


def _check_shards(candidate: _Candidate) -> str:
    """A file such as `model-00001-of-00003.bin` has all its siblings; numbers begin at 0 or 1."""
    series: dict[tuple[str, str, str], set[int]] = {}
    for shard in filter(None, map(_SHARD.fullmatch, candidate.files)):
        before, number, _, count, after = shard.groups()
        series.setdefault((before, count, after), set()).add(int(number))
    for (before, count, after), numbers in sorted(series.items()):
        start = 0 if 0 in numbers else 1
        for number in sorted(set(range(start, int(count) + start)) - numbers):
            return f"no {before}{number:0{len(count)}d}-of-{count}{after}"
    return ""


def _check_marks(candidate: _Candidate) -> str:
    """Rank 0's node has the marks of the layout; marks behind a barrier are the youngest files."""
    files, disk = candidate.files, candidate.disk
    for mark in candidate.marks:
        if mark.content:
            states = [state for path, state in disk.files.items() if _names_step(candidate, mark, path)]
        else:
            states = [state for path, state in files.items() if matches(mark.expression, path)]
        if not states:
            return f"no {mark.name}"
        newest = max(state.mtime_ns for state in states)
        younger = [path for path, state in files.items() if state.mtime_ns > newest]
        if mark.barrier and younger:
            return f"{younger[0]} is younger than the {mark.name}: it is being saved again"
    return ""


def _names_step(candidate: _Candidate, mark: Mark, path: str) -> bool:
    """Returns whether a file of this attempt names the step, or a later one."""
    disk = candidate.disk
    if not matches(mark.expression, path) or candidate.known.before.get(path) == disk.files[path]:
        return False
    content = compile_expression(mark.content).fullmatch(disk.pointers.get(path, ""))
    return content is not None and int(content["step"]) >= candidate.step.number


def _check_last_step(candidate: _Candidate) -> str:
    """Without marks, a step has the names of the last complete step."""
    shape = candidate.known.shape
    if candidate.marks or shape is None or shape <= candidate.shape:
        return ""
    return f"no {min(shape - candidate.shape)}, which the last complete step has"


def _check_first_step(candidate: _Candidate) -> str:
    """Without marks, the first step is compared with the next one, or the training ends well."""
    if candidate.marks or candidate.layout.ranks_end or candidate.known.shape is not None:
        return ""
    later = [step for step in candidate.steps if step > candidate.step]
    more = {
        candidate.layout.shape(path) for step in later for path in candidate.steps[step]
    } - candidate.shape
    if more:
        return f"no {min(more)}, which a later step has"
    if not later and candidate.ending is not RunEnd.WELL:
        return "the first step is complete when the next one begins here, or the training ends well"
    return ""


def _check_rest(candidate: _Candidate) -> str:
    """No file is still written to: shown by a barrier, the end of all processes, or files at rest."""
    ending = candidate.ending
    if any(mark.barrier for mark in candidate.marks) or ending in (RunEnd.WELL, RunEnd.BY_THEMSELVES):
        return ""
    moving = [path for path in candidate.files if path not in candidate.disk.resting]
    if not moving:
        return ""
    when = "still be written to" if ending is None else "still have been written to when a process died"
    return f"{moving[0]} may {when}"


# In the order in which a reason is the most useful one: a step that was taken before, files that are missing,
# marks that are missing, then guesses from other steps and from rest.
_RULES: Collection[Callable[[_Candidate], str]] = (
    _check_rewritten,
    _check_removed,
    _check_unfinished,
    _check_strangers,
    _check_needs,
    _check_ranks,
    _check_shards,
    _check_marks,
    _check_last_step,
    _check_first_step,
    _check_rest,
)
