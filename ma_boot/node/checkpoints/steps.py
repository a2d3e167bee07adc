"""Which steps are complete on a node, from what its disk has and what its training says. Pure.

Nothing is inferred from time: a file has to come to rest, but no pause ever makes a step complete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ma_boot.node.checkpoints.frameworks import FILE, NUMBERED
from ma_boot.node.checkpoints.keys import step_text
from ma_boot.node.checkpoints.layout import (
    EPOCH,
    HIGHEST,
    UNFINISHED,
    Layout,
    Mark,
    TrainingStep,
    compiled,
    matches,
)
from ma_boot.node.checkpoints.step_names import LOGS, has_number, names_another_step
from path_mapping.localfs.source_file import FileState

Files = Mapping[str, FileState]
_SHARD = re.compile(r"(.*-)(\d+)(-of-)(\d+)(\D.*)", re.DOTALL)


class RunEnd(Enum):
    """How the processes of a node have ended: nobody writes any more.

    WELL: all with 0. BY_THEMSELVES: after a stop signal, each with 0 or as a handler of the signal ends it,
    so none was cut off while it wrote. CUT: any other way.
    """

    WELL = "ended well"
    BY_THEMSELVES = "ended by themselves"
    CUT = "were cut off"


@dataclass(frozen=True)
class Disk:
    """The directory of an output as it is at one moment.

    `files` have their states, `errors` say what is wrong with a path (a link out of the output), `pointers`
    are the contents of files that name a step, `resting` are the files that have not changed for long enough.
    """

    files: Files
    errors: Mapping[str, str] = field(default_factory=dict)
    pointers: Mapping[str, str] = field(default_factory=dict)
    resting: AbstractSet[str] = frozenset()


class CallTimes(NamedTuple):
    """Times of the first and the last call of `checkpoint` by a node's ranks for a step.

    Nanoseconds of the clock that also dates files: what a rank has saved is not younger than its call, and
    what it saves next is.
    """

    first: int
    last: int


class Notes(NamedTuple):
    """Calls of `checkpoint` by all ranks of a node: their number for each step, and the last times.

    `silent` are the other steps, with the rank that has not called. The times are those of all steps, or none
    if one of them is not known: a step without a time has no place in their order.
    """

    steps: Mapping[int, int]
    silent: Mapping[int, str]
    times: Mapping[int, CallTimes] = {}


@dataclass(frozen=True)
class Taken:
    """A step of this node that was complete: its version, and the states that its files had."""

    step: TrainingStep
    version: int
    by_word: bool
    files: Files


@dataclass(frozen=True)
class NodeSteps:
    """What is known of the steps of a node before a look: `ranks` are its own.

    `before` are the files as they were when the attempt began, `taken` the steps that were complete, the
    newest version of each; `shape` are the names of the last complete one, None if there was none. `rested`
    are the files that have come to rest in this attempt, by the number of their step. `alone`: no other node
    saves.
    """

    ranks: Collection[int]
    before: Files = field(default_factory=dict)
    taken: Mapping[int, Taken] = field(default_factory=dict)
    shape: AbstractSet[str] | None = None
    rested: Mapping[int, AbstractSet[str]] = field(default_factory=dict)
    alone: bool = True


class Decision(NamedTuple):
    """The steps to take, the oldest first, and why others are not complete.

    `lost` are the waiting steps whose files would never be published if nothing more came.
    """

    complete: list[Taken]
    waiting: dict[TrainingStep, str]
    lost: set[TrainingStep]


def decide(
    layout: Layout,
    disk: Disk,
    known: NodeSteps,
    notes: Notes | None = None,
    ending: RunEnd | None = None,
) -> Decision:
    """Which steps are complete on a node.

    `notes` are what the training says, None if it says nothing: then marks and names decide.
    """
    decision = Decision([], {}, set())
    steps = {
        step: {path: disk.files[path] for path in layout.in_order(paths) if path in disk.files}
        for step, paths in layout.steps(path for path in disk.files if not layout.is_pointer(path)).items()
    }
    touched = [
        step for step, files in steps.items() if any(known.before.get(p) != s for p, s in files.items())
    ]
    broken = {
        step: f"{path}: {why}" for path, why in disk.errors.items() for step in [layout.step_at(path)] if step
    }
    for step in {**dict.fromkeys(touched), **broken}:
        if step in broken:
            why: str = broken[step]
        elif notes is not None:
            continue
        else:
            why = _why_not(layout, step, steps, disk, known, ending)
        if why == _UNCHANGED:
            continue
        if why:
            decision.waiting[step] = why
            if step.number not in known.taken and not set(steps.get(step, ())) & set(known.before):
                decision.lost.add(step)
        else:
            version = known.taken[step.number].version + 1 if step.number in known.taken else 1
            decision.complete.append(Taken(step, version, False, steps[step]))
    if notes is not None:
        _by_word(notes, steps, touched, broken, known, decision)
    decision.complete.sort(key=lambda taken: taken.step)
    return decision


_UNCHANGED = "nothing has changed since it was taken"


def _by_word(
    notes: Notes,
    steps: Mapping[TrainingStep, Files],
    touched: Sequence[TrainingStep],
    broken: Collection[TrainingStep],
    known: NodeSteps,
    decision: Decision,
) -> None:
    """What is said decides: a step is taken anew as often as all ranks have said it."""
    on_disk = {step.number: step for step in steps}
    for number, times in notes.steps.items():
        step = on_disk.get(number, TrainingStep(number, step_text(number)))
        taken = known.taken.get(number)
        if step in broken or (taken is not None and taken.by_word and taken.version >= times):
            continue
        files = steps.get(step, {})
        gone = known.rested.get(number, frozenset()) - set(files)
        if gone or (not files and known.rested):
            decision.waiting[step] = f"{min(gone, default='what it had')} was removed before it was taken"
            decision.lost.add(step)
        else:
            decision.complete.append(Taken(step, times, True, files))
    for step in touched:
        if step.number not in notes.steps and step not in broken and step.number not in known.taken:
            decision.waiting[step] = notes.silent.get(step.number, "no rank has said that it is complete")
            decision.lost.add(step)


def _why_not(
    layout: Layout,
    step: TrainingStep,
    steps: Mapping[TrainingStep, Files],
    disk: Disk,
    known: NodeSteps,
    ending: RunEnd | None,
) -> str:
    """Why a step is not complete by its files; empty if it is."""
    files, taken = steps[step], known.taken.get(step.number)
    why = _why_not_anew(files, taken, known)
    lacks = why or _lacks(layout, step, files, disk, known)
    if lacks:
        return lacks
    marks = layout.marks if 0 in known.ranks else ()
    for mark in marks:
        lacks = _unmarked(mark, step, files, disk, known)
        if lacks:
            return lacks
    marked = bool(marks) or layout.ranks_end
    names = {layout.shape(path) for path in files}
    if not marks and known.shape is not None and not known.shape <= names:
        return f"no {min(known.shape - names)}, which the last complete step has"
    if not marked and known.shape is None:
        later = [other for other in steps if other > step]
        more = {layout.shape(path) for other in later for path in steps[other]} - names
        if more:
            return f"no {min(more)}, which a later step has"
        if not later and ending is not RunEnd.WELL:
            return "the first step is complete when the next one begins here, or the training ends well"
    if any(mark.barrier for mark in marks) or ending in (RunEnd.WELL, RunEnd.BY_THEMSELVES):
        return ""
    moving = [path for path in files if path not in disk.resting]
    if not moving:
        return ""
    when = "still be written to" if ending is None else "still have been written to when a process died"
    return f"{moving[0]} may {when}"


def _why_not_anew(files: Files, taken: Taken | None, known: NodeSteps) -> str:
    """Why a step that was restored or taken before is not taken as a whole; empty if it may be."""
    old = known.before if taken is None else taken.files
    changed = [path for path, state in files.items() if path in old and old[path] != state]
    same = [path for path in files if path in old and old[path] == files[path]]
    added = [path for path in files if path not in old]
    if taken is None:
        return f"{same[0]} is of an earlier start, {(changed + added)[0]} is not" if same else ""
    if not changed and (not added or not known.alone):
        return _UNCHANGED
    if set(old) - set(files):
        return _UNCHANGED  # the framework removes it
    return f"{changed[0]} was rewritten since, {same[0]} was not" if changed and same else ""


def _lacks(layout: Layout, step: TrainingStep, files: Files, disk: Disk, known: NodeSteps) -> str:
    """What a step of this layout has, and this one has not, or has and must not; empty if nothing."""
    gone = known.rested.get(step.number, frozenset()) - set(files)
    if gone:
        return f"{min(gone)} was removed"
    unfinished = [path for path in files if layout.is_unfinished(path)]
    if unfinished:
        return f"{unfinished[0]} is being written"
    if layout is FILE:
        stranger = _stranger(layout, step, files, disk.files)
        if stranger:
            return f"is {stranger} a part of it, beside {next(iter(files))}? Name both by patterns"
    for need in layout.needs if 0 in known.ranks else ():
        if not any(matches(need.expression, path) for path in files):
            return f"no {need.name}"
    for expression in layout.each_rank:
        ranks, count = _hits((expression,), files)
        lacking = sorted(set(known.ranks) - ranks) if ranks else []
        by_rank = "rank" in compiled(expression).groupindex
        if by_rank and (lacking or not count):
            return f"no file of rank {min(lacking or known.ranks, default=0)}"
        if not by_rank and 0 < count < len(known.ranks):
            return f"optimizer states of {count} of {len(known.ranks)} ranks"
    return _shards_missing(files)


def _hits(expressions: Sequence[str], files: Files) -> tuple[set[int], int]:
    """The ranks whose files match, and the number of files that do."""
    hits = [hit for text in expressions for path in files for hit in [compiled(text).fullmatch(path)] if hit]
    ranks = (hit.groupdict().get("rank") for hit in hits)
    return {int(rank) for rank in ranks if rank is not None}, len(hits)


def _unmarked(mark: Mark, step: TrainingStep, files: Files, disk: Disk, known: NodeSteps) -> str:
    """Why a mark does not say that a step is complete; empty if it does."""
    if mark.content:
        states = [state for path, state in disk.files.items() if _names(mark, path, step, disk, known)]
    else:
        states = [state for path, state in files.items() if matches(mark.expression, path)]
    if not states:
        return f"no {mark.name}"
    newest = max(state.mtime_ns for state in states)
    younger = [path for path, state in files.items() if state.mtime_ns > newest]
    if mark.barrier and younger:
        return f"{younger[0]} is younger than the {mark.name}: it is being saved again"
    return ""


def _names(mark: Mark, path: str, step: TrainingStep, disk: Disk, known: NodeSteps) -> bool:
    """Whether a file of this start names this step, or a later one."""
    if not matches(mark.expression, path) or known.before.get(path) == disk.files[path]:
        return False
    content = compiled(mark.content).fullmatch(disk.pointers.get(path, ""))
    return content is not None and int(content["step"]) >= step.number


def _stranger(layout: Layout, step: TrainingStep, files: Files, all_files: Files) -> str:
    """A file beside a step, with the number of the step, whose name does not tell what it is."""
    directories = {path.rpartition("/")[0] for path in files}
    for path in all_files:
        hit = compiled(NUMBERED).fullmatch(path)
        beside = path.rpartition("/")[0] in directories and layout.step_of(path) is None
        if beside and hit and int(hit["step"]) == step.number % EPOCH:
            return path
    return ""


def _shards_missing(paths: Collection[str]) -> str:
    """A file such as `model-00001-of-00003.safetensors` that is not there yet; empty if none."""
    series: dict[tuple[str, str, str], set[int]] = {}
    for shard in filter(None, map(_SHARD.fullmatch, paths)):
        before, number, _, count, after = shard.groups()
        series.setdefault((before, count, after), set()).add(int(number))
    for (before, count, after), numbers in sorted(series.items()):
        start = 0 if 0 in numbers else 1
        for number in sorted(set(range(start, int(count) + start)) - numbers):
            return f"no {before}{number:0{len(count)}d}-of-{count}{after}"
    return ""


def decide_by_calls(disk: Disk, known: NodeSteps, notes: Notes, layout: Layout | None = None) -> Decision:
    """The explicit steps that are complete on a node, for an output whose files may have any names.

    A step has what was written since the last step that was taken, and before its call. `layout` is the one
    that the files seem to have: its pointers belong to no step.
    """
    decision = Decision([], {}, set())
    taken = [taken for taken in known.taken.values() if taken.by_word]
    before, newest = _states(known.before, *(one.files for one in taken)), taken[-1].files if taken else {}
    files = {path: state for path, state in disk.files.items() if _may_be_of_a_step(path, layout)}
    for number in sorted(notes.steps, key=lambda number: (notes.times.get(number, _ANY_TIME).last, number)):
        last = known.taken.get(number)
        if last is not None and last.by_word and last.version >= notes.steps[number]:
            continue
        call = notes.times.get(number, _ANY_TIME)
        changed = {path: state for path, state in files.items() if state not in before.get(path, ())}
        mine = _written_for(number, call, changed, known.ranks)
        later = {path for path, state in changed.items() if state.mtime_ns > call.last}
        step = TrainingStep(number, step_text(number))
        gone = (known.rested.get(number, frozenset()) - set(mine)) | (later & newest.keys())
        why = _why_torn(mine, gone, later, known.alone) or _linked_out(number, mine, disk.errors)
        if why:
            decision.waiting[step] = why
            decision.lost.add(step)
            continue
        newest = mine
        before = _states(before, mine)
        if last is not None and last.by_word:  # a new version has what the last one had, too
            mine = {**{path: state for path, state in last.files.items() if files.get(path) == state}, **mine}
        decision.complete.append(Taken(step, notes.steps[number], True, mine))
    for number, why in notes.silent.items():
        decision.waiting[TrainingStep(number, step_text(number))] = why
    return decision


_ANY_TIME = CallTimes(HIGHEST * 10, HIGHEST * 10)  # of a call that was noted without a time


def _written_for(number: int, call: CallTimes, changed: Files, ranks: Collection[int]) -> Files:
    """The files that were written for an explicit step.

    Ranks need not call at the same time: between the first call and the last, one may already save its next
    step. Only of the files of this time the names decide.
    """
    sure = {path: state for path, state in changed.items() if state.mtime_ns <= call.first}
    rest = {path for path, state in changed.items() if call.first < state.mtime_ns <= call.last}
    if call == _ANY_TIME:  # no time is known, so all files are of this kind
        sure, rest = {}, set(changed)
    named_otherwise = names_another_step(set(sure) | rest, number % EPOCH, ranks) & rest
    return {path: state for path, state in changed.items() if path in sure or path in rest - named_otherwise}


def _states(*trees: Mapping[str, FileState | AbstractSet[FileState]]) -> dict[str, set[FileState]]:
    """All states that files have in these trees."""
    states: dict[str, set[FileState]] = {}
    for files in trees:
        for path, state in files.items():
            states.setdefault(path, set()).update([state] if isinstance(state, FileState) else state)
    return states


def _may_be_of_a_step(path: str, layout: Layout | None) -> bool:
    is_pointer = layout is not None and layout.is_pointer(path)
    return not (is_pointer or matches(UNFINISHED, path) or matches(LOGS, path))


def _why_torn(files: Files, gone: AbstractSet[str], later: AbstractSet[str], alone: bool) -> str:
    """Returns why the files of a step are not as they were at its call; empty if they are.

    `gone` were files of it that are not there any more as they were, `later` were written after the call.
    """
    if gone:
        return f"{min(gone)} was removed or written again before it was published"
    if not files and later:
        return f"{min(later)} was written again before it was taken"
    return "no file was written since the call before" if not files and alone else ""


def _linked_out(number: int, files: Files, errors: Mapping[str, str]) -> str:
    """An unusable path that seems to belong to a step; empty if there is none."""
    directories = {path.rpartition("/")[0] for path in files} - {""}
    for path, why in errors.items():
        if has_number(path, number % EPOCH) or path.rpartition("/")[0] in directories:
            return f"{path}: {why}"
    return ""


class _Note(NamedTuple):
    """A call of `checkpoint`: the step, the rank, None for the whole node, and the time, None if unknown."""

    number: int
    rank: int | None
    time: int | None


def read_notes(texts: Iterable[str], ranks: Collection[int], root: str = "/") -> Notes | None:
    """The calls of `checkpoint` by the ranks of a node for the output at `root`, a real path; None if none.

    Each text is what one process has written so far: a JSON object per line; any other line, such as one that
    was cut, is left out. A step is complete when it was called for the whole node, or by each of its ranks.
    A call for a directory is meant for `root` if that is the directory, or has it below it.
    """
    calls: dict[int, dict[int | None, list[int | None]]] = {}  # times, by step and rank
    lines = (line for text in texts for line in text.splitlines())
    for note in filter(None, (_note(line, ranks, root) for line in lines)):
        calls.setdefault(note.number, {}).setdefault(note.rank, []).append(note.time)
    steps, silent, times = {}, {}, {}
    for number, by_rank in calls.items():
        of_node = by_rank.get(None, [])
        together = min((len(by_rank.get(rank, [])) for rank in ranks), default=0)
        if of_node or together:
            steps[number] = len(of_node) + together
            last_calls = [*of_node[-1:], *(by_rank[rank][together - 1] for rank in ranks if together)]
            known_times = [time for time in last_calls if time is not None]
            if len(known_times) == len(last_calls):
                times[number] = CallTimes(min(known_times), max(known_times))
        else:
            missing: set[int] = set(ranks) - set(by_rank)
            silent[number] = f"rank {min(missing)} has not said that it is complete" if missing else ""
    return Notes(steps, silent, times if len(times) == len(steps) else {}) if calls else None


def _note(line: str, ranks: Collection[int], root: str) -> _Note | None:
    """The call in a line; None for any other line."""
    try:
        document = json.loads(line)
        step, epoch, rank = document["step"], document.get("epoch"), document.get("rank")
        number = int(step) if epoch is None else int(epoch) * EPOCH + int(step)
        time = document.get("time_ns")
        directory = document.get("directory")
        if directory is not None and not f"{directory}/".startswith(f"{root.rstrip('/')}/"):
            return None
        if document.get("node") is True:
            rank = None
        elif rank is None and len(ranks) == 1:
            (rank,) = ranks
        elif rank is None or int(rank) not in ranks:
            rank = -1  # of a process that does not know its rank: it speaks for nobody
        rank = None if rank is None else int(rank)
        time = None if time is None else int(time)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    return _Note(number, rank, time) if 0 <= number < HIGHEST else None
