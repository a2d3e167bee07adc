"""Each layout that has a name: a tree as the framework leaves it on a node, and what is read from its names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ma_boot.node.checkpoints.layouts.recognition import LAYOUTS, framework_of
from ma_boot.node.checkpoints.steps import Disk, NodeSteps
from ma_boot.node.checkpoints.steps_by_files import decide_by_files
from path_mapping.localfs.source_file import FileState


@dataclass(frozen=True)
class Tree:
    """The files of one step in the order in which they are written, and those beside them, on a node with `ranks`.

    `missed` are those of which each is missed if it alone is not there, with what is printed then; `pointing` is
    what a pointer has that marks the step. `marked`: the layout has a mark of it.
    """

    layout: str
    step: str
    files: Sequence[str]
    beside: Sequence[str] = ()
    pointers: Sequence[str] = ()
    ranks: Sequence[int] = (0, 1)
    markers: dict[str, str] = field(default_factory=dict)
    missed: dict[str, str] = field(default_factory=dict)
    sent_last: Sequence[str] = ()
    marked: bool = False
    pointing: str = ""
    reshards: bool = False
    of_rank_1: Sequence[str] = ()  # what rank 1 needs; empty: everything


TREES = {
    "mindspore": Tree(
        "mindspore", "3_20", ["out/rank_0/net-3_20.ckpt", "out/rank_1/net-3_20.ckpt"],
        beside=["out/rank_0/net-graph.meta", "out/rank_0/resnet_train.ckpt"], marked=True,
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
        marked=True,
    ),
    "mindformers2": Tree(
        "mindformers2", "100",
        [*(f"checkpoint/iteration_00000100/llm-{what}-000000{rank}-0000002.safetensors" for what in ("model", "opt") for rank in (0, 1)),
         "checkpoint/iteration_00000100/common.json", "checkpoint/iteration_00000100/metadata.json"],
        pointers=["checkpoint/latest_checkpointed_iteration.txt"],
        markers={"checkpoint/latest_checkpointed_iteration.txt": "100"},
        marked=True, pointing="100",
        missed={
            "checkpoint/latest_checkpointed_iteration.txt": "no step in the tracker",
            "checkpoint/iteration_00000100/metadata.json": "no metadata.json",
            "checkpoint/iteration_00000100/llm-opt-0000001-0000002.safetensors": "",
        },
        sent_last=["checkpoint/iteration_00000100/common.json", "checkpoint/iteration_00000100/metadata.json"],
        reshards=True,
    ),
    "megatron, distributed": Tree(
        "megatron", "100",
        [*(f"iter_0000100/__{rank}_{part}.distcp" for rank in (0, 1) for part in (0, 1)),
         "iter_0000100/common.pt", "iter_0000100/.metadata", "iter_0000100/metadata.json"],
        pointers=["latest_checkpointed_iteration.txt"], markers={"latest_checkpointed_iteration.txt": "100"},
        missed={"latest_checkpointed_iteration.txt": "no step in the tracker"}, pointing="100",
        sent_last=["iter_0000100/.metadata", "iter_0000100/metadata.json"], marked=True, reshards=True,
    ),
    "megatron, legacy": Tree(
        "megatron-legacy", "100",
        ["ckpt/iter_0000100/mp_rank_00/model_optim_rng.pt", "ckpt/iter_0000100/mp_rank_01/model_optim_rng.pt",
         "ckpt/iter_0000100/mp_rank_00/distrib_optim.pt"],
        pointers=["ckpt/latest_checkpointed_iteration.txt"], markers={"ckpt/latest_checkpointed_iteration.txt": "100"},
        missed={"ckpt/latest_checkpointed_iteration.txt": "no step in the tracker"}, marked=True, pointing="100\n",
    ),
    "deepspeed": Tree(
        "deepspeed", "100",
        ["run1/global_step100/mp_rank_00_model_states.pt",
         *(f"run1/global_step100/bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in (0, 1))],
        beside=["run1/zero_to_fp32.py", "run1/logs/0.txt"], pointers=["run1/latest"], markers={"run1/latest": "global_step100"},
        missed={
            "run1/latest": "no step in `latest`",
            "run1/global_step100/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt": "optimizer states of 1 of 2 ranks",
        },
        marked=True, pointing="global_step100",
    ),
    "deepspeed, stage 3, own tag": Tree(
        "deepspeed", "7",
        [f"run1/best7/zero_pp_rank_{rank}_mp_rank_00_{what}_states.pt" for what in ("model", "optim") for rank in (0, 1)],
        pointers=["run1/latest"], markers={"run1/latest": "best7"}, marked=True, pointing="best7",
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
            "out/checkpoint-500/model-00002-of-00002.safetensors": "no out/checkpoint-500/model-00002-of-00002.safetensors",
        },
        marked=True,
        sent_last=["out/checkpoint-500/model.safetensors.index.json", "out/checkpoint-500/trainer_state.json"], reshards=True,
    ),
    "transformers, by DeepSpeed": Tree(
        "transformers", "500",
        ["checkpoint-500/global_step500/mp_rank_00_model_states.pt",
         "checkpoint-500/global_step500/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", "checkpoint-500/latest",
         "checkpoint-500/rng_state_0.pth", "checkpoint-500/rng_state_1.pth", "checkpoint-500/trainer_state.json"],
        sent_last=["checkpoint-500/latest", "checkpoint-500/trainer_state.json"], marked=True,
    ),
    "transformers, by FSDP": Tree(
        "transformers", "500",
        ["checkpoint-500/pytorch_model_fsdp_0/__0_0.distcp", "checkpoint-500/pytorch_model_fsdp_0/__1_0.distcp",
         "checkpoint-500/pytorch_model_fsdp_0/.metadata", "checkpoint-500/rng_state_0.pth",
         "checkpoint-500/rng_state_1.pth", "checkpoint-500/trainer_state.json"],
        sent_last=["checkpoint-500/pytorch_model_fsdp_0/.metadata", "checkpoint-500/trainer_state.json"], reshards=True,
        marked=True,
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
        "lightning-sharded", "240",
        [*(f"epoch=2-step=240.ckpt/__{rank}_0.distcp" for rank in (0, 1)), "epoch=2-step=240.ckpt/.metadata",
         "epoch=2-step=240.ckpt/meta.pt"],
        sent_last=["epoch=2-step=240.ckpt/.metadata", "epoch=2-step=240.ckpt/meta.pt"], marked=True, reshards=True,
    ),
    "dcp": Tree(
        "dcp", "40", [*(f"run2/step_40/__{rank}_0.distcp" for rank in (0, 1)), "run2/step_40/.metadata"],
        beside=["run2/log.txt"], missed={"run2/step_40/.metadata": "no .metadata"},
        sent_last=["run2/step_40/.metadata"], marked=True, reshards=True,
    ),
    "dcp, by epoch": Tree(
        "dcp", "3_40", ["epoch_3/iter_40/model/__0_0.distcp", "epoch_3/iter_40/model/.metadata", "epoch_3/iter_40/extra.txt"],
        sent_last=["epoch_3/iter_40/model/.metadata"], ranks=(0,), marked=True, reshards=True,
    ),
    "dcp, a number": Tree(
        "dcp", "40", ["40/__2_0.distcp"], beside=["41/notes.txt"], ranks=(2,), reshards=True,
    ),
    "file": Tree("file", "100", ["out/ckpt_100.pt"], beside=["out/model.pt", "out/vocab10.bin", "resnet50.pth"], reshards=True),
    "file, with its optimizer": Tree("file", "3", ["model-3.pth", "optimizer-3.pth"], reshards=True),
    "file, by epoch": Tree("file", "3_100", ["epoch_3_step_100.safetensors"], reshards=True),
}  # fmt: skip

FIRST = "the first step is complete when the next one begins here, or the training ends well"

trees = pytest.mark.parametrize("tree", TREES.values(), ids=TREES)


def why_not(tree: Tree, files: Sequence[str], *before: str) -> str:
    """Returns the reason that a step with these files, all at rest, is not complete; `before` were there at the start."""
    layout = LAYOUTS[tree.layout]
    states = {path: FileState(1, 1, number) for number, path in enumerate([*files, *before])}
    pointers = dict.fromkeys(tree.pointers, tree.pointing)
    known = NodeSteps(tree.ranks, {path: states[path] for path in before})
    decision = decide_by_files(layout, Disk(states, {}, pointers, set(files)), known)
    assert len(decision.complete) + len(decision.waiting) == 1
    return next(iter(decision.waiting.values()), "")


def test_every_layout_has_its_tree() -> None:
    assert {tree.layout for tree in TREES.values()} == set(LAYOUTS)


def test_every_layout_has_its_row_in_the_documentation() -> None:
    text = (Path(__file__).parents[3] / "docs" / "checkpoints.md").read_text()
    assert {name for name in re.findall(r"^\| `([a-z0-9-]+)`", text, re.MULTILINE) if name in LAYOUTS} == set(
        LAYOUTS
    )


@trees
def test_layout_and_its_files_are_recognised_in_every_order(tree: Tree) -> None:
    layout = LAYOUTS[tree.layout]
    paths = [*tree.beside, *tree.pointers, *tree.files]
    assert framework_of(paths) is framework_of(reversed(paths)) is (layout if layout.tells else None)
    assert {layout.step_of(path) for path in [*tree.beside, *tree.pointers]} <= {None}
    ((step, files),) = layout.steps(paths).items()
    assert (step.name, files) == (tree.step, tuple(sorted(tree.files)))
    assert {path for path in paths if layout.is_pointer(path)} == set(tree.pointers)


@trees
def test_no_other_layout_is_recognised_while_it_is_written(tree: Tree) -> None:
    """In particular not that of what is inside, and not that of a file alone."""
    begun: list[str] = []
    for path in tree.files:
        begun.append(path)
        assert framework_of(begun) in (None, LAYOUTS[tree.layout]), begun


@trees
def test_step_is_complete_with_its_mark_and_reports_missing_files(tree: Tree) -> None:
    everything = [*tree.files, *tree.pointers]
    assert why_not(tree, everything) == ("" if tree.marked else FIRST)
    for path, message in tree.missed.items():
        assert why_not(tree, [other for other in everything if other != path]) == message, path
    unfinished = f"{tree.files[0].rpartition('.')[0] if tree.layout == 'mindspore' else tree.files[0]}.tmp"
    if LAYOUTS[tree.layout].step_of(unfinished):
        assert why_not(tree, [*everything, unfinished]) == f"{unfinished} is being written"


@trees
def test_a_pointer_of_an_earlier_start_marks_nothing(tree: Tree) -> None:
    if tree.pointing:
        assert why_not(tree, tree.files, *tree.pointers).startswith("no step in ")


@trees
def test_metadata_is_uploaded_last_and_pointers_are_made(tree: Tree) -> None:
    layout = LAYOUTS[tree.layout]
    order = layout.in_order(reversed(tree.files))
    assert sorted(order) == sorted(tree.files)
    assert set(order[len(order) - len(tree.sent_last) :]) == set(tree.sent_last)
    assert layout.marker_files(tree.files) == tree.markers
    assert set(tree.markers) <= set(filter(layout.is_pointer, tree.markers)), "pointers are never uploaded"


@trees
def test_each_rank_needs_the_files_of_its_layout(tree: Tree) -> None:
    layout = LAYOUTS[tree.layout]
    assert layout.reshards(tree.files) is tree.reshards
    assert layout.needed(tree.files, [1]) == sorted(tree.of_rank_1 or tree.files)


def test_a_name_with_quotes_stays_json() -> None:
    made = LAYOUTS["mindformers"].marker_files(['rank_0/a"b_rank_0-1_2.ckpt'])
    assert made == {
        "rank_0/meta.json": '{"last_epoch": 1, "last_step": 2, "last_ckpt_file": "a\\"b_rank_0-1_2.ckpt"}'
    }
