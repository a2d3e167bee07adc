"""Layouts of checkpoints: which file is of which step, when a step is complete on a node, and its markers."""

from __future__ import annotations

from typing import List, Sequence

import pytest

from path_mapping.layouts import (
    HIGHEST,
    LAYOUTS,
    Completeness,
    Layout,
    TrainingStep,
    completeness,
    layout_of,
    pattern_layout,
    recognise,
)

MINDSPORE = LAYOUTS["mindspore"]


def standing(
    layout: Layout, paths: Sequence[str], step: str, ranks: Sequence[int], ended: bool = False
) -> Completeness:
    found = layout.steps(paths)
    (one,) = [each for each in found if each.name == step]
    return completeness(layout, found, one, ranks, ended)


def ckpts(step: str, *ranks: int, suffix: str = "ckpt") -> List[str]:
    return [f"rank_{rank}/net-{step}.{suffix}" for rank in ranks]


def test_mindspore_has_a_file_per_rank_named_by_epoch_and_step() -> None:
    paths = [
        *ckpts("2_5", 0, 1),
        *ckpts("1_10", 0, 1),
        "rank_0/net-graph.meta",
        "rank_0/net_train.ckpt",
        "rank_0/log.txt",
    ]
    assert MINDSPORE.steps(paths) == {
        TrainingStep(1_000_000_010, "1_10"): ("rank_0/net-1_10.ckpt", "rank_1/net-1_10.ckpt"),
        TrainingStep(2_000_000_005, "2_5"): ("rank_0/net-2_5.ckpt", "rank_1/net-2_5.ckpt"),
    }
    assert recognise(paths) is MINDSPORE
    assert MINDSPORE.rank_of("out/run/ckpt_12/net-2_5.safetensors") == 12
    assert MINDSPORE.rank_of("net-2_5.ckpt") is None
    assert MINDSPORE.needed(paths[:4], [1]) == ["rank_1/net-1_10.ckpt", "rank_1/net-2_5.ckpt"]
    assert MINDSPORE.needed(paths[:4], [2]) == sorted(paths[:4]), "rank 2 has none: it reads a peer's"


@pytest.mark.parametrize(
    ("paths", "missing", "sure"),
    [
        (ckpts("1_10", 0, 1), (), True),
        (ckpts("1_10", 0), ("no file of rank 1",), False),
        ([*ckpts("1_10", 0), "rank_1/net-1_10.tmp"], ("rank_1/net-1_10.tmp is being written", "no file of rank 1"), False),
        (["net-1_10.ckpt"], (), True),  # one file for all
        ([*ckpts("1_10", 0), *ckpts("1_20", 0)], (), True),  # only rank 0 saves: the next step has begun without rank 1
        ([*ckpts("1_5", 0, 1), *ckpts("1_10", 0), *ckpts("1_20", 0)], ("no file of rank 1",), False),  # rank 1 saves, too
    ],
)  # fmt: skip
def test_a_step_of_mindspore_is_complete_when_all_ranks_have_theirs(
    paths: List[str], missing: Sequence[str], sure: bool
) -> None:
    assert standing(MINDSPORE, paths, "1_10", [0, 1]) == Completeness(tuple(missing), sure)


def test_what_the_first_rank_alone_writes_is_expected_on_its_node_only() -> None:
    layout = pattern_layout(["{step}/done", "{step}/rank{rank}"])
    assert standing(layout, ["5/rank0"], "5", [0]).missing == ("no {step}/done",)
    assert standing(layout, ["5/rank1"], "5", [1]).missing == ()


def test_a_rank_that_has_not_saved_before_is_not_waited_for_in_the_next_step() -> None:
    both = [*ckpts("1_10", 0), *ckpts("1_20", 0)]
    assert standing(MINDSPORE, both, "1_20", [0, 1]) == Completeness((), True)
    assert standing(MINDSPORE, both[1:], "1_20", [0, 1]).missing == ("no file of rank 1",)


def test_files_of_other_nodes_that_were_restored_here_change_nothing() -> None:
    layout = pattern_layout(["model{rank}-{step}", "rng{rank}-{step}"])
    assert standing(layout, ["model0-5", "rng0-5", "model9-5"], "5", [0]).missing == ()


def test_the_same_file_of_two_steps_has_one_shape() -> None:
    assert (
        MINDSPORE.shape("rank_3/net-12_3456.ckpt")
        == MINDSPORE.shape("rank_3/net-7_8.ckpt")
        == "rank_3/net-*_*.ckpt"
    )
    assert MINDSPORE.shape("log.txt") == "log.txt"
    assert LAYOUTS["file"].shape("ckpt_10.pt") == "ckpt_*.pt"


def test_a_rank_reads_its_own_files_if_all_of_the_node_have_some() -> None:
    paths = ckpts("1_10", 0, 1, 2)
    assert MINDSPORE.needed(paths, [0, 1, 2]) == paths
    assert MINDSPORE.needed(paths, [0, 1]) == paths[:2]
    assert MINDSPORE.needed([*paths, "net-1_10.ckpt"], [0]) == ["net-1_10.ckpt", paths[0]]


def test_the_layout_of_an_output() -> None:
    """By `auto` from the files, by its name, and by patterns."""
    assert layout_of(["auto"], ["iter_0000100/.metadata"]) is LAYOUTS["megatron"]
    assert layout_of(["auto"], ["a.txt"]) is None
    assert layout_of(["dcp"], []) is LAYOUTS["dcp"]
    two = layout_of(["dcp_{step}", "file_{step}"], [])
    assert two is not None
    assert (two.name, len(two.files)) == ("dcp_{step} file_{step}", 2)
    with pytest.raises(ValueError, match="the placeholder"):
        layout_of(["{step}{x}"], [])


def test_numbers_of_steps_end_below_the_highest() -> None:
    layout = pattern_layout(["{step}"])
    highest = layout.step_of(str(HIGHEST - 1))
    assert highest == (HIGHEST - 1, str(HIGHEST - 1))
    assert layout.step_of(str(HIGHEST)) is None
    assert HIGHEST == 10**18, "keys in OBS have its number of digits"


def test_files_of_ranks_elsewhere_are_not_waited_for() -> None:
    assert standing(MINDSPORE, ckpts("1_10", 8, 9), "1_10", [8, 9]) == Completeness((), True)


@pytest.mark.parametrize(
    ("pattern", "path", "step"),
    [
        ("iter_{step}", "iter_0000100/a/b.pt", "100"),
        ("iter_{step}", "iter_0000100", "100"),
        ("iter_{step}/", "iter_7/a", "7"),
        ("run-*/ckpt.{step}.pt", "run-a/ckpt.20.pt", "20"),
        ("{epoch}_{step}.bin", "3_20.bin", "3_20"),
        ("{{x}}_{step}", "{x}_5", "5"),
    ],
)
def test_a_pattern_names_a_file_or_a_directory(pattern: str, path: str, step: str) -> None:
    found = pattern_layout([pattern]).step_of(path)
    assert found
    assert found.name == step


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("iter_{step}", "x/iter_1/a"),
        ("iter_{step}", "iter_1.tmp"),
        ("iter_{step}", "iter_"),
        ("a.{step}", "ab5"),
        ("*-{step}", "a/b-5"),
        ("{step}/{step}.pt", "5/6.pt"),
        ("{step}.pt", "9" * 19 + ".pt"),
        ("{epoch}_{step}.pt", f"1_{10**9}.pt"),
    ],
)
def test_a_pattern_matches_nothing_else(pattern: str, path: str) -> None:
    assert pattern_layout([pattern]).step_of(path) is None


def test_every_pattern_belongs_to_a_step() -> None:
    layout = pattern_layout(["model-{step}.pt", "rank{rank}-{step}.pt", "rng{rank}-{step}"])
    paths = ["rank0-5.pt", "rank1-5.pt", "rng1-5"]
    assert standing(layout, paths, "5", [0, 1]).missing == (
        "no rng{rank}-{step} of rank 0",
        "no model-{step}.pt",
    )
    assert standing(layout, [*paths, "rng0-5", "model-5.pt"], "5", [0, 1]) == Completeness((), False)
    assert standing(layout, [*paths, "rng0-5", "model-5.pt"], "5", [0, 1], ended=True) == Completeness(
        (), True
    )
    assert standing(layout, ["rank2-5.pt", "rng2-5"], "5", [2]).missing == (), (
        "model is on the node of rank 0"
    )


def test_files_that_say_how_many_they_are_are_all_waited_for() -> None:
    layout = pattern_layout(["{step}"])
    paths = ["5/model-00001-of-00003.safetensors", "5/model-00003-of-00003.safetensors", "5/x-0-of-1"]
    assert standing(layout, paths, "5", [0]).missing == ("no file 5/model-00002-of-00003.safetensors",)
    assert standing(layout, paths, "5", [0], ended=True) == Completeness((), True), "it is on another node"
    zero_based = ["5/model-00000-of-00002.bin"]
    assert standing(layout, zero_based, "5", [0]).missing == ("no file 5/model-00001-of-00002.bin",)


def test_nothing_known_is_recognised_in_other_trees() -> None:
    assert recognise([]) is None
    assert recognise(["logs/a.txt", "data_batch_1.bin", "model.ckpt"]) is None
