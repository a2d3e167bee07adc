"""Layouts of checkpoints: which file is of which step, and who reads it."""

from __future__ import annotations

import pytest

from ma_boot.node.checkpoints.layouts.layout import HIGHEST, TrainingStep
from ma_boot.node.checkpoints.layouts.recognition import (
    LAYOUTS,
    framework_of,
    layout_by_name,
    pattern_layout,
    read_layout,
)

MINDSPORE = LAYOUTS["mindspore"]


def ckpts(step: str, *ranks: int) -> list[str]:
    return [f"rank_{rank}/net-{step}.ckpt" for rank in ranks]


def test_steps_are_in_the_order_of_their_epochs() -> None:
    assert MINDSPORE.steps([*ckpts("2_5", 0, 1), *ckpts("1_10", 0, 1)]) == {
        TrainingStep(1_000_000_010, "1_10"): ("rank_0/net-1_10.ckpt", "rank_1/net-1_10.ckpt"),
        TrainingStep(2_000_000_005, "2_5"): ("rank_0/net-2_5.ckpt", "rank_1/net-2_5.ckpt"),
    }
    assert MINDSPORE.rank_of("out/run/ckpt_12/net-2_5.safetensors") == 12
    assert MINDSPORE.rank_of("net-2_5.ckpt") is None


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
    assert MINDSPORE.needed(paths, [3]) == paths, "rank 3 has none: it reads a peer's"
    assert MINDSPORE.needed([*paths, "net-1_10.ckpt"], [0]) == ["net-1_10.ckpt", paths[0]]


def test_option_selects_the_layout_of_an_output() -> None:
    """By `auto` from the files, by its name, and by patterns."""
    assert framework_of(["iter_0000100/.metadata"]) is LAYOUTS["megatron"]
    assert framework_of(["a.txt"]) is None
    assert layout_by_name(["auto"]) is None
    assert layout_by_name(["dcp"]) is LAYOUTS["dcp"]
    two = layout_by_name(["dcp_{step}", "file_{step}"])
    assert two is not None
    assert (two.name, len(two.files)) == ("dcp_{step} file_{step}", 2)
    with pytest.raises(ValueError, match="the placeholder"):
        layout_by_name(["{step}{x}"])


def test_manifest_names_the_layout_of_its_checkpoint() -> None:
    assert read_layout("dcp") is LAYOUTS["dcp"]
    assert read_layout("a_{step} b_{step}") == pattern_layout(["a_{step}", "b_{step}"])
    for of_any_names in ("", "any"):
        assert read_layout(of_any_names).step_of("step_1/a") is None
    with pytest.raises(ValueError, match="expected a pattern"):
        read_layout("a layout of tomorrow")


@pytest.mark.parametrize(
    ("pattern", "path", "step"),
    [
        ("iter_{step}", "iter_0000100/a/b.pt", "100"),
        ("iter_{step}", "iter_0000100", "100"),
        ("iter_{step}/", "iter_7/a", "7"),
        ("run-*/ckpt.{step}.pt", "run-a/ckpt.20.pt", "20"),
        ("{epoch}_{step}.bin", "3_20.bin", "3_20"),
        ("{{x}}_{step}", "{x}_5", "5"),
        ("iter_{step}", "x/iter_1/a", None),
        ("iter_{step}", "iter_1.tmp", None),
        ("iter_{step}", "iter_", None),
        ("a.{step}", "ab5", None),
        ("*-{step}", "a/b-5", None),
        ("{step}/{step}.pt", "5/6.pt", None),
        ("{step}", str(HIGHEST - 1), str(HIGHEST - 1)),
        ("{step}", str(HIGHEST), None),
        ("{epoch}_{step}.pt", f"1_{10**9}.pt", None),
    ],
)
def test_a_pattern_names_a_file_or_a_directory(pattern: str, path: str, step: str | None) -> None:
    named = pattern_layout([pattern]).step_of(path)
    assert (named and named.name) == step


def test_no_layout_is_recognised_in_other_trees() -> None:
    assert framework_of([]) is None
    assert framework_of(["logs/a.txt", "data_batch_1.bin", "model.ckpt"]) is None
