"""Completeness of a step on a node: by a mark, by the names of the last step, or by calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import pytest

from ma_boot.node.checkpoints.calls import Calls
from ma_boot.node.checkpoints.layouts.layout import Layout
from ma_boot.node.checkpoints.layouts.recognition import LAYOUTS, pattern_layout
from ma_boot.node.checkpoints.steps import (
    Disk,
    Files,
    NodeSteps,
    RunEnd,
    TakenStep,
    decide_by_calls_and_names,
)
from ma_boot.node.checkpoints.steps_by_files import decide_by_files
from path_mapping.localfs.source_file import FileState

MINDSPORE = LAYOUTS["mindspore"]
DIRECTORY = pattern_layout(["iter_{step}"])
FIRST = "the first step is complete when the next one begins here, or the training ends well"


def ckpts(step: str, *ranks: int) -> list[str]:
    return [f"rank_{rank}/net-{step}.ckpt" for rank in ranks]


def states(paths: Iterable[str], time: int = 1) -> dict[str, FileState]:
    return {path: FileState(1, time, 1) for path in paths}


def disk(files: Files, resting: Collection[str] | None = None, **more: dict[str, str]) -> Disk:
    return Disk(files, resting=set(files if resting is None else resting), **more)


def why_not(
    layout: Layout,
    paths: Sequence[str],
    step: str,
    known: NodeSteps,
    ending: RunEnd | None = None,
    resting: Collection[str] | None = None,
) -> str:
    """Returns the reason that a step is not complete; empty if it is."""
    decision = decide_by_files(layout, disk(states(paths), resting), known, ending=ending)
    waiting = {waits.name: why for waits, why in decision.waiting.items()}
    assert step in waiting or step in {taken.step.name for taken in decision.complete}
    return waiting.get(step, "")


@pytest.mark.invariant("A step is complete by an explicit call or by its files, never by silence")
@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (ckpts("1_10", 0, 1), ""),
        (ckpts("1_10", 0), "no file of rank 1"),
        ([*ckpts("1_10", 0), "rank_1/net-1_10.tmp"], "rank_1/net-1_10.tmp is being written"),
        (["net-1_10.ckpt"], ""),  # one file for all
        ([*ckpts("1_10", 0), *ckpts("1_20", 0)], "no file of rank 1"),  # however long it is silent
    ],
)  # fmt: skip
@pytest.mark.parametrize("ending", [None, RunEnd.WELL])
def test_a_step_of_mindspore_is_complete_when_all_ranks_have_theirs(
    paths: Sequence[str], message: str, ending: RunEnd | None
) -> None:
    assert why_not(MINDSPORE, paths, "1_10", NodeSteps((0, 1)), ending) == message


def test_the_first_step_without_a_mark_is_complete_when_the_next_one_begins_here() -> None:
    known = NodeSteps((0,))
    assert why_not(DIRECTORY, ["iter_1/a", "iter_1/b"], "1", known) == FIRST
    assert why_not(DIRECTORY, ["iter_1/a", "iter_2/a"], "1", known) == ""
    assert why_not(DIRECTORY, ["iter_1/a", "iter_2/a"], "2", known) == FIRST
    late = why_not(DIRECTORY, ["iter_1/a", "iter_2/a", "iter_2/b"], "1", known)
    assert late == "no iter_*/b, which a later step has"
    moving = why_not(DIRECTORY, ["iter_1/a", "iter_2/a"], "1", known, resting=["iter_2/a"])
    assert moving == "iter_1/a may still be written to"


def test_a_later_step_without_a_mark_has_the_names_of_the_last_complete_one() -> None:
    known = NodeSteps((0,), shape={"iter_*/a", "iter_*/b"})
    assert why_not(DIRECTORY, ["iter_2/a", "iter_2/b", "iter_2/c"], "2", known) == ""
    for ending in (None, RunEnd.WELL):
        lacking = why_not(DIRECTORY, ["iter_2/a", "iter_3/a"], "2", known, ending)
        assert lacking == "no iter_*/b, which the last complete step has"


@pytest.mark.parametrize(
    ("ending", "message"),
    [
        (RunEnd.WELL, ""),
        (RunEnd.BY_THEMSELVES, ""),
        (RunEnd.CUT, "iter_2/a may still have been written to when a process died"),
    ],
)
def test_step_need_not_rest_once_the_processes_have_ended_by_themselves(ending: RunEnd, message: str) -> None:
    known = NodeSteps((0,), shape={"iter_*/a"})
    assert why_not(DIRECTORY, ["iter_2/a"], "2", known, ending, resting=()) == message


def test_a_mark_behind_a_barrier_is_younger_than_what_it_marks() -> None:
    dcp, known = LAYOUTS["dcp"], NodeSteps((0, 1))
    data = ["step_5/__0_0.distcp", "step_5/__1_0.distcp"]
    mark = "step_5/.metadata"
    complete = decide_by_files(dcp, Disk({**states(data, 3), **states([mark], 4)}), known)
    assert [taken.step.name for taken in complete.complete] == ["5"]
    again = decide_by_files(dcp, disk({**states(data, 3), **states([mark], 2)}), known)
    assert list(again.waiting.values()) == [
        f"{data[0]} is younger than the .metadata: it is being saved again"
    ]
    other = NodeSteps((2, 3), shape={"step_*/__2_0.distcp", "step_*/__3_0.distcp"})
    assert why_not(dcp, ["step_5/__2_0.distcp"], "5", other).startswith("no step_*/__3_0.distcp")
    assert why_not(dcp, ["step_5/__2_0.distcp", "step_5/__3_0.distcp"], "5", other) == ""


def test_every_pattern_has_a_file_of_a_step() -> None:
    layout = pattern_layout(["model-{step}.pt", "rank{rank}-{step}.pt", "rng{rank}-{step}"])
    paths = ["rank0-5.pt", "rank1-5.pt", "rng1-5", "model-5.pt"]
    known = NodeSteps((0, 1))
    assert why_not(layout, paths, "5", known, RunEnd.WELL) == "no file of rank 0"
    assert why_not(layout, [*paths[:3], "rng0-5"], "5", known, RunEnd.WELL) == "no model-{step}.pt"
    assert why_not(layout, [*paths, "rng0-5", "model9-5.pt"], "5", known, RunEnd.WELL) == ""
    assert why_not(layout, ["rank2-5.pt", "rng2-5"], "5", NodeSteps((2,)), RunEnd.WELL) == ""


def test_step_waits_for_all_numbered_shards() -> None:
    paths = ["iter_5/model-00001-of-00003.bin", "iter_5/model-00003-of-00003.bin", "iter_5/x-0-of-1"]
    known = NodeSteps((0,))
    assert why_not(DIRECTORY, paths, "5", known, RunEnd.WELL) == "no iter_5/model-00002-of-00003.bin"
    assert why_not(DIRECTORY, ["iter_5/m-00000-of-00002"], "5", known, RunEnd.WELL) == ""
    assert why_not(DIRECTORY, ["iter_5/m-0-of-2.bin"], "5", known, RunEnd.WELL) == "no iter_5/m-1-of-2.bin"


def test_unknown_file_beside_a_step_keeps_it_incomplete() -> None:
    known = NodeSteps((0,))
    paths = ["model-3.pth", "optimizer-3.pth", "notes-4.pth"]
    assert why_not(LAYOUTS["file"], paths, "3", known, RunEnd.WELL) == ""
    asked = why_not(LAYOUTS["file"], ["model-3.pth", "aux-3.pth"], "3", known, RunEnd.WELL)
    assert asked == "is aux-3.pth a part of it, beside model-3.pth? Name both by patterns"


def test_a_link_out_of_the_output_is_an_error_of_its_step() -> None:
    for path in ("iter_5", "iter_5/a"):
        linked = disk(states(["iter_5/b"]), errors={path: "a link out of the output, to /elsewhere"})
        decision = decide_by_files(DIRECTORY, linked, NodeSteps((0,)), ending=RunEnd.WELL)
        assert list(decision.waiting.values()) == [f"{path}: a link out of the output, to /elsewhere"]
        assert not decision.complete
        assert len(decision.lost) == 1


def taken_before(paths: Iterable[str], version: int = 1, time: int = 1) -> dict[int, TakenStep]:
    (step,) = DIRECTORY.steps(paths)
    return {step.number: TakenStep(step, version, False, states(paths, time))}


PUBLISHED = ["iter_5/a", "iter_5/b"]


@pytest.mark.parametrize(
    ("changed", "added", "alone", "version"),
    [
        ([], [], True, 0),
        (["iter_5/a"], [], True, 0),  # half of it: it is being saved again
        (PUBLISHED, [], True, 2),
        (PUBLISHED, [], False, 2),
        ([], ["iter_5/c"], True, 2),
        ([], ["iter_5/c"], False, 0),  # no other node can know of it
    ],
)
def test_a_step_that_is_published_makes_a_new_version_of_all_of_it_or_nothing(
    changed: Sequence[str], added: Sequence[str], alone: bool, version: int
) -> None:
    now = {**states(PUBLISHED), **states([*changed, *added], 2)}
    known = NodeSteps((0,), taken=taken_before(PUBLISHED), shape={"iter_*/a", "iter_*/b"}, alone=alone)
    decision = decide_by_files(DIRECTORY, disk(now), known)
    assert [(taken.version, set(taken.files)) for taken in decision.complete] == (
        [(version, set(now))] if version else []
    )
    assert not decision.lost


def test_file_added_to_a_restored_step_makes_no_checkpoint() -> None:
    before = states(PUBLISHED)
    now = disk({**before, **states(["iter_5/eval.json", "iter_6/a"], 2)})
    decision = decide_by_files(DIRECTORY, now, NodeSteps((0,), before), ending=RunEnd.WELL)
    assert [taken.step.name for taken in decision.complete] == ["6"]
    assert not decision.lost
    (why,) = decision.waiting.values()
    assert why == "iter_5/a is of an earlier start, iter_5/eval.json is not"


@pytest.mark.invariant("A step is complete by an explicit call or by its files, never by silence")
def test_calls_alone_decide_on_explicit_steps() -> None:
    now = disk(states(["iter_5/a", "iter_6/a", "iter_7/a"]), resting=())
    calls = Calls({5: 1, 9: 1}, {6: "rank 1 has not called checkpoint for it"})
    decision = decide_by_calls_and_names(DIRECTORY, now, NodeSteps((0, 1)), calls)
    assert [(taken.step.name, taken.is_explicit, set(taken.files)) for taken in decision.complete] == [
        ("5", True, {"iter_5/a"}),
        ("9", True, set()),
    ]
    assert {step.name: why for step, why in decision.waiting.items()} == {
        "6": "rank 1 has not called checkpoint for it",
        "7": "no rank has called checkpoint for it",
    }
    again = NodeSteps((0, 1), taken={taken.step.number: taken for taken in decision.complete})
    assert decide_by_calls_and_names(DIRECTORY, now, again, calls).complete == []
    twice = decide_by_calls_and_names(DIRECTORY, now, again, Calls({5: 2, 9: 1}, {}))
    assert [(taken.step.name, taken.version) for taken in twice.complete] == [("5", 2)]


def test_inferred_step_is_taken_again_when_it_is_called() -> None:
    known = NodeSteps((0,), taken=taken_before(PUBLISHED))
    (step,) = decide_by_calls_and_names(DIRECTORY, disk(states(PUBLISHED)), known, Calls({5: 1}, {})).complete
    assert (step.version, step.is_explicit) == (1, True)


def test_called_step_whose_files_were_removed_is_lost() -> None:
    known = NodeSteps((0,), rested={5: {"iter_5/a", "iter_5/b"}})
    for files in (states(["iter_5/a"]), {}):
        decision = decide_by_calls_and_names(DIRECTORY, disk(files), known, Calls({5: 1}, {}))
        assert not decision.complete
        assert list(decision.waiting.values()) == [
            f"{'iter_5/b' if files else 'iter_5/a'} was removed before it was taken"
        ]
    elsewhere = decide_by_calls_and_names(DIRECTORY, disk({}), known, Calls({6: 1}, {}))
    assert list(elsewhere.waiting.values()) == ["what it had was removed before it was taken"]
    never = decide_by_calls_and_names(DIRECTORY, disk({}), NodeSteps((0,)), Calls({6: 1}, {}))
    assert [taken.files for taken in never.complete] == [{}], (
        "a node that saves nothing publishes an empty part"
    )
