"""Each layout that has a name: a tree as the framework leaves it on a node, and what is read from its names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Sequence, Tuple

import pytest

from path_mapping.layouts import LAYOUTS, Layout, completeness, recognise


@dataclass(frozen=True)
class Tree:
    """The files of one step in the order in which they are written, and those beside them, on a node with `ranks`.

    `needed` are those of which each is missed if it alone is not there, with what is said then.
    """

    layout: str
    step: str
    files: Sequence[str]
    beside: Sequence[str] = ()
    pointers: Sequence[str] = ()
    ranks: Sequence[int] = (0, 1)
    markers: Dict[str, str] = field(default_factory=dict)
    missed: Dict[str, str] = field(default_factory=dict)
    sent_last: Sequence[str] = ()
    sure: bool = False
    reshards: bool = False
    of_rank_1: Sequence[str] = ()  # what rank 1 needs; empty: everything


TREES = {
    "mindspore": Tree(
        "mindspore", "3_20", ["out/rank_0/net-3_20.ckpt", "out/rank_1/net-3_20.ckpt"],
        beside=["out/rank_0/net-graph.meta", "out/rank_0/resnet_train.ckpt"], sure=True,
        missed={"out/rank_1/net-3_20.ckpt": "no file of rank 1"}, of_rank_1=["out/rank_1/net-3_20.ckpt"],
    ),
    "mindformers": Tree(
        "mindformers", "1_8",
        [f"checkpoint{kind}/rank_{rank}/llama_rank_{rank}-1_8.safetensors" for kind in ("", "_network") for rank in (0, 1)],
        beside=["strategy/ckpt_strategy_rank_0.ckpt", "checkpoint/rank_0/tmpa8f_1x"],
        pointers=["checkpoint/rank_0/meta.json", "checkpoint/rank_1/meta.json", "resume_record/latest_checkpointed_iteration.txt"],
        markers={
            f"checkpoint/rank_{rank}/meta.json":
            f'{{"last_epoch": 1, "last_step": 8, "last_ckpt_file": "llama_rank_{rank}-1_8.safetensors"}}' for rank in (0, 1)
        },
        sure=True,
    ),
    "mindformers2": Tree(
        "mindformers2", "100",
        [*(f"checkpoint/iteration_00000100/llm-{what}-000000{rank}-0000002.safetensors" for what in ("model", "opt") for rank in (0, 1)),
         "checkpoint/iteration_00000100/common.json", "checkpoint/iteration_00000100/metadata.json"],
        pointers=["checkpoint/latest_checkpointed_iteration.txt"],
        markers={"checkpoint/latest_checkpointed_iteration.txt": "100"},
        missed={
            "checkpoint/iteration_00000100/common.json": "no common.json",
            "checkpoint/iteration_00000100/metadata.json": "no metadata.json",
        },
        sent_last=["checkpoint/iteration_00000100/common.json", "checkpoint/iteration_00000100/metadata.json"],
        reshards=True,
    ),
    "megatron, distributed": Tree(
        "megatron", "100",
        [*(f"iter_0000100/__{rank}_{part}.distcp" for rank in (0, 1) for part in (0, 1)),
         "iter_0000100/common.pt", "iter_0000100/.metadata", "iter_0000100/metadata.json"],
        pointers=["latest_checkpointed_iteration.txt"], markers={"latest_checkpointed_iteration.txt": "100"},
        missed={"iter_0000100/.metadata": "no .metadata", "iter_0000100/metadata.json": "no metadata.json"},
        sent_last=["iter_0000100/.metadata", "iter_0000100/metadata.json"], sure=True, reshards=True,
    ),
    "megatron, legacy": Tree(
        "megatron-legacy", "100",
        ["ckpt/iter_0000100/mp_rank_00/model_optim_rng.pt", "ckpt/iter_0000100/mp_rank_01/model_optim_rng.pt",
         "ckpt/iter_0000100/mp_rank_00/distrib_optim.pt"],
        pointers=["ckpt/latest_checkpointed_iteration.txt"], markers={"ckpt/latest_checkpointed_iteration.txt": "100"},
        missed={"ckpt/iter_0000100/mp_rank_00/model_optim_rng.pt": "no mp_rank_00*/model_optim_rng.pt"},
    ),
    "deepspeed": Tree(
        "deepspeed", "100",
        ["run1/global_step100/mp_rank_00_model_states.pt",
         *(f"run1/global_step100/bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in (0, 1))],
        beside=["run1/zero_to_fp32.py", "run1/logs/0.txt"], pointers=["run1/latest"], markers={"run1/latest": "global_step100"},
        missed={"run1/global_step100/mp_rank_00_model_states.pt": "no model states of mp_rank_00"},
    ),
    "deepspeed, stage 3, own tag": Tree(
        "deepspeed", "7",
        [f"run1/best7/zero_pp_rank_{rank}_mp_rank_00_{what}_states.pt" for what in ("model", "optim") for rank in (0, 1)],
        pointers=["run1/latest"], markers={"run1/latest": "best7"},
    ),
    "transformers": Tree(
        "transformers", "500",
        ["out/checkpoint-500/config.json", "out/checkpoint-500/model-00001-of-00002.safetensors",
         "out/checkpoint-500/model-00002-of-00002.safetensors", "out/checkpoint-500/model.safetensors.index.json",
         "out/checkpoint-500/training_args.bin", "out/checkpoint-500/optimizer.pt", "out/checkpoint-500/scheduler.pt",
         "out/checkpoint-500/rng_state_0.pth", "out/checkpoint-500/rng_state_1.pth", "out/checkpoint-500/trainer_state.json"],
        beside=["out/runs/events.out.tfevents.1", "out/config.json"],
        missed={
            "out/checkpoint-500/trainer_state.json": "no trainer_state.json",
            "out/checkpoint-500/rng_state_1.pth": "no file of rank 1",
            "out/checkpoint-500/model-00002-of-00002.safetensors": "no file out/checkpoint-500/model-00002-of-00002.safetensors",
        },
        sent_last=["out/checkpoint-500/model.safetensors.index.json", "out/checkpoint-500/trainer_state.json"], reshards=True,
    ),
    "transformers, by DeepSpeed": Tree(
        "transformers", "500",
        ["checkpoint-500/global_step500/mp_rank_00_model_states.pt",
         "checkpoint-500/global_step500/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", "checkpoint-500/latest",
         "checkpoint-500/rng_state_0.pth", "checkpoint-500/rng_state_1.pth", "checkpoint-500/trainer_state.json"],
        sent_last=["checkpoint-500/latest", "checkpoint-500/trainer_state.json"],
    ),
    "transformers, by FSDP": Tree(
        "transformers", "500",
        ["checkpoint-500/pytorch_model_fsdp_0/__0_0.distcp", "checkpoint-500/pytorch_model_fsdp_0/__1_0.distcp",
         "checkpoint-500/pytorch_model_fsdp_0/.metadata", "checkpoint-500/rng_state_0.pth",
         "checkpoint-500/rng_state_1.pth", "checkpoint-500/trainer_state.json"],
        sent_last=["checkpoint-500/pytorch_model_fsdp_0/.metadata", "checkpoint-500/trainer_state.json"], reshards=True,
    ),
    "accelerate": Tree(
        "accelerate", "2",
        ["checkpoints/checkpoint_2/model.safetensors", "checkpoints/checkpoint_2/optimizer.bin",
         "checkpoints/checkpoint_2/random_states_0.pkl", "checkpoints/checkpoint_2/random_states_1.pkl"],
        missed={"checkpoints/checkpoint_2/random_states_1.pkl": "no file of rank 1"}, reshards=True,
    ),
    "lightning, a file": Tree(
        "lightning", "240", ["checkpoints/epoch=2-step=240.ckpt"], pointers=["checkpoints/last.ckpt"],
        beside=["hparams.yaml"], reshards=True,
    ),
    "lightning, sharded": Tree(
        "lightning", "240",
        [*(f"epoch=2-step=240.ckpt/__{rank}_0.distcp" for rank in (0, 1)), "epoch=2-step=240.ckpt/.metadata",
         "epoch=2-step=240.ckpt/meta.pt"],
        sent_last=["epoch=2-step=240.ckpt/.metadata", "epoch=2-step=240.ckpt/meta.pt"], sure=True, reshards=True,
    ),
    "dcp": Tree(
        "dcp", "40", [*(f"run2/step_40/__{rank}_0.distcp" for rank in (0, 1)), "run2/step_40/.metadata"],
        beside=["run2/log.txt"], missed={"run2/step_40/.metadata": "no .metadata"},
        sent_last=["run2/step_40/.metadata"], sure=True, reshards=True,
    ),
    "dcp, by epoch": Tree(
        "dcp", "3_40", ["epoch_3/iter_40/model/__0_0.distcp", "epoch_3/iter_40/model/.metadata", "epoch_3/iter_40/extra.txt"],
        sent_last=["epoch_3/iter_40/model/.metadata"], ranks=(0,), sure=True, reshards=True,
    ),
    "dcp, a number": Tree(
        "dcp", "40", ["40/__2_0.distcp"], beside=["41/notes.txt"], ranks=(2,), reshards=True,
    ),
    "file": Tree("file", "100", ["out/ckpt_100.pt"], beside=["out/model.pt", "out/vocab10.bin", "resnet50.pth"], reshards=True),
    "file, by epoch": Tree("file", "3_100", ["epoch_3_step_100.safetensors"], reshards=True),
}  # fmt: skip

trees = pytest.mark.parametrize("tree", TREES.values(), ids=TREES)


def said(layout: Layout, files: Sequence[str], ranks: Sequence[int]) -> Tuple[List[str], bool]:
    found = layout.steps(files)
    (step,) = found
    result = completeness(layout, found, step, ranks)
    return list(result.missing), result.sure


def test_every_layout_has_its_tree() -> None:
    assert {tree.layout for tree in TREES.values()} == set(LAYOUTS)


def test_every_layout_has_its_row_in_the_documentation() -> None:
    text = (Path(__file__).parents[4] / "docs" / "checkpoints.md").read_text()
    assert {name for name in re.findall(r"^\| `([a-z0-9-]+)`", text, re.MULTILINE) if name in LAYOUTS} == set(
        LAYOUTS
    )


@trees
def test_it_is_recognised_in_every_order_and_its_files_are_told_from_others(tree: Tree) -> None:
    layout = LAYOUTS[tree.layout]
    paths = [*tree.beside, *tree.pointers, *tree.files]
    assert recognise(paths) is recognise(reversed(paths)) is layout
    assert {layout.step_of(path) for path in [*tree.beside, *tree.pointers]} <= {None}
    ((step, files),) = layout.steps(paths).items()
    assert (step.name, files) == (tree.step, tuple(sorted(tree.files)))
    assert {path for path in paths if layout.is_pointer(path)} == set(tree.pointers)


@trees
def test_no_other_layout_is_recognised_while_it_is_written(tree: Tree) -> None:
    """In particular not that of what is inside, and not that of a file alone."""
    begun: List[str] = []
    for path in tree.files:
        begun.append(path)
        assert recognise(begun) in (None, LAYOUTS[tree.layout]), begun


@trees
def test_it_is_complete_with_all_its_files_and_says_what_is_missing(tree: Tree) -> None:
    layout = LAYOUTS[tree.layout]
    assert said(layout, tree.files, tree.ranks) == ([], tree.sure)
    for path, message in tree.missed.items():
        assert said(layout, [one for one in tree.files if one != path], tree.ranks) == ([message], False)
    unfinished = (
        f"{tree.files[0].rpartition('.')[0]}.tmp" if tree.layout == "mindspore" else f"{tree.files[0]}.tmp"
    )
    if layout.step_of(unfinished):
        assert said(layout, [*tree.files, unfinished], tree.ranks) == (
            [f"{unfinished} is being written"],
            False,
        )


@trees
def test_the_next_step_is_complete_when_it_looks_like_the_one_before(tree: Tree) -> None:
    layout = LAYOUTS[tree.layout]
    (step,) = layout.steps(tree.files)
    number = tree.step.split("_")[-1]
    width = 8 if "iteration_" in tree.files[0] else 7 if "iter_0" in tree.files[0] else len(number)
    later = str(int(number) + 1).zfill(width)
    following = [path.replace(number.zfill(width), later) for path in tree.files]
    found = layout.steps([*tree.files, *following])
    assert next(iter(found)) == step
    assert completeness(layout, found, list(found)[1], tree.ranks).sure
    assert completeness(layout, found, step, tree.ranks).sure, "a later step has begun"
    if len(following) > 1 and not layout.ends and not layout.last:
        found = layout.steps([*tree.files, *following[1:]])
        assert not completeness(layout, found, list(found)[1], tree.ranks).sure


@trees
def test_what_goes_last_and_what_is_made_for_the_loader(tree: Tree) -> None:
    layout = LAYOUTS[tree.layout]
    order = layout.in_order(reversed(tree.files))
    assert sorted(order) == sorted(tree.files)
    assert set(order[len(order) - len(tree.sent_last) :]) == set(tree.sent_last)
    assert layout.marker_files(tree.files) == tree.markers
    assert set(tree.markers) <= set(filter(layout.is_pointer, tree.markers)), "what is made is never sent"


@trees
def test_who_reads_what(tree: Tree) -> None:
    layout = LAYOUTS[tree.layout]
    assert layout.reshards(tree.files) is tree.reshards
    assert layout.needed(tree.files, [1]) == sorted(tree.of_rank_1 or tree.files)


def test_a_name_with_quotes_stays_json() -> None:
    made = LAYOUTS["mindformers"].marker_files(['rank_0/a"b_rank_0-1_2.ckpt'])
    assert made == {
        "rank_0/meta.json": '{"last_epoch": 1, "last_step": 2, "last_ckpt_file": "a\\"b_rank_0-1_2.ckpt"}'
    }
