"""Real PyTorch: DistributedDataParallel over gloo, four processes on two simulated nodes; torchrun and accelerate."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.functional.frameworks.same_environment import PLATFORMS, differences, same_everywhere
from tests.functional.frameworks.torch_jobs import events, rehearse
from tests.functional.node import PROGRAMS, Ended

DDP = PROGRAMS / "ddp.py"
IN_CODE = f"$MA_JOB_DIR/{PROGRAMS.name}/{DDP.name}"

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]


def trained(ended: Ended, ranks: int = 4) -> list[dict[str, Any]]:
    """Returns the output of the ranks; they have learned, and all the same."""
    assert ended.code == 0, ended.output
    lines = [line for line in ended.output.splitlines() if "trained {" in line]
    facts = [json.loads(line.partition("trained ")[2]) for line in lines]
    assert len(facts) == ranks, ended.output
    assert all(rank["equal"] and rank["last"] < rank["first"] / 5 for rank in facts)
    return sorted(facts, key=lambda rank: int(rank["RANK"]))


def test_ddp_trains_on_two_nodes(tmp_path: Path) -> None:
    ranks = trained(rehearse(tmp_path, "--rendezvous", "torch", str(DDP)))
    assert [rank["RANK"] for rank in ranks] == ["0", "1", "2", "3"]
    assert [rank["LOCAL_RANK"] for rank in ranks] == ["0", "1", "0", "1"]
    assert {rank["WORLD_SIZE"] for rank in ranks} == {"4"}
    assert {rank["LOCAL_WORLD_SIZE"] for rank in ranks} == {"2"}
    assert len({(rank["MASTER_ADDR"], rank["MASTER_PORT"]) for rank in ranks}) == 1
    assert {rank["RANK_TABLE_FILE"] for rank in ranks} == {rank["RANK_ID"] for rank in ranks} == {None}


def test_the_training_is_the_same_on_every_platform(tmp_path: Path) -> None:
    """Bit by bit: each rank sees the same, and has the same losses."""
    words = ("--devices-per-node", "1", "--rendezvous", "torch", str(DDP), "environ")
    ranks = {
        platform: trained(rehearse(tmp_path, "--platform", platform, *words), 2) for platform in PLATFORMS
    }
    assert [rank["RANK"] for rank in ranks["mindcluster"]] == ["0", "1"]
    assert all(len(rank["losses"]) == 60 for rank in ranks["modelarts"])
    assert "LOCAL_RANK" in same_everywhere(ranks["volcano"][0]["environ"])
    assert differences(ranks) == []


def test_chosen_cards_are_named_to_each_process(tmp_path: Path) -> None:
    of_four = ("--devices-per-node", "4", "--rendezvous", "torch", "--devices", "2,1")
    ranks = trained(rehearse(tmp_path, *of_four, str(DDP)))
    assert [(rank["LOCAL_RANK"], rank["DEVICE_ID"]) for rank in ranks] == [("0", "1"), ("1", "2")] * 2


def test_a_rank_that_raises_is_the_cause(tmp_path: Path) -> None:
    """The report shows the exception even if the abort of a peer, which loses its connection, comes first."""
    ended = rehearse(tmp_path, "--rendezvous", "torch", str(DDP), "fail")
    lines = [line.partition("[ma_boot] ")[2] for line in ended.output.splitlines()]
    if ended.code == 1:
        assert "  | ValueError: planted in the last rank" in lines
        assert lines[-1].startswith("exit code 1: node 1, rank 3: ValueError: planted in the last rank")
    else:
        assert ended.code == 134
        assert [
            line for line in lines if re.match("rank 3 .*; its last exception: ValueError: planted in", line)
        ]
        assert [line for line in lines if line.startswith("hint: this rank lost its peer")]


TORCHRUN_IN_FULL = [
    "--nnodes=$MABOOT_NNODES", "--node-rank=$MABOOT_NODE_RANK", "--nproc-per-node=$MABOOT_NPROC",
    "--master-addr=$MABOOT_MASTER_ADDR", "--master-port=$MABOOT_MASTER_PORT",
]  # fmt: skip


@pytest.mark.parametrize("options", [[], TORCHRUN_IN_FULL], ids=["plain", "in full"])
def test_torchrun_starts_the_ranks_of_all_nodes(tmp_path: Path, options: list[str]) -> None:
    ended = rehearse(tmp_path, "torchrun", *options, str(DDP))
    assert [rank["RANK"] for rank in trained(ended)] == ["0", "1", "2", "3"]


# Without a process group: with torch 2.13, gloo often refuses the ranks of a second attempt, by torchrun alone, too.
RESTARTED = """
import os, pathlib, time
rank, attempt = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
pathlib.Path(f"{rank}-{attempt}").touch()
while not all(pathlib.Path(f"{other}-{attempt}").exists() for other in "01"):
    time.sleep(0.05)
if (rank, attempt) == ("1", "0"):
    raise ValueError("first try")
time.sleep(10)
print("trained", rank, flush=True)
"""


def test_restart_by_torchrun_itself_is_no_failure(tmp_path: Path) -> None:
    """The failed rank runs again, so the grace period after its end is no limit."""
    (tmp_path / "restarted.py").write_text(RESTARTED)
    words = ("--max-restarts", "1", "--nproc_per_node", "2", "restarted.py")
    ended = rehearse(tmp_path, "--nodes", "1", "--per-node", "torchrun", *words, MABOOT_SCRIPT_RANK_GRACE="8")
    assert ended.code == 0, ended.output
    assert ended.output.count("trained") == 2
    assert "has failed, and other ranks" not in ended.output


def test_accelerate_once_on_each_node(tmp_path: Path) -> None:
    ended = rehearse(
        tmp_path, "--per-node", "--code-dir", str(PROGRAMS),
        "accelerate", "launch", "--multi_gpu", "--num_machines=$MABOOT_NNODES",
        "--machine_rank=$MABOOT_NODE_RANK", "--num_processes=$MABOOT_WORLD_SIZE", "--main_process_ip=$MABOOT_MASTER_ADDR",
        "--main_process_port=$MABOOT_MASTER_PORT", "--mixed_precision=no", "--dynamo_backend=no", IN_CODE,
    )  # fmt: skip
    assert [rank["RANK"] for rank in trained(ended)] == ["0", "1", "2", "3"]


def test_step_loss_and_step_time_of_the_trainer_of_transformers_are_in_the_events(tmp_path: Path) -> None:
    ended = rehearse(tmp_path, "--rendezvous", "torch", "--metrics", "1", str(PROGRAMS / "hf_trainer.py"))
    assert ended.code == 0, ended.output
    ranks = [event["ranks"] for event in events(tmp_path, 0, "metrics")]
    assert ranks[0]["rank"] == [0, 1]
    assert all(size > 100 for size in ranks[1]["rss"] if size is not None), "torch itself takes as much"
    first, *_, last = (sample for sample in ranks if sample.get("step", [None])[0] is not None)
    assert last["step"][0] == 60, "only the first rank prints"
    assert 0.1 < last["step_time"][0] < 1
    assert last["loss"][0] < first["loss"][0]


HANGS = """
import os, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
def next_batch(): time.sleep(600)
dist.all_reduce(torch.ones(1))
if rank == 2: next_batch()
dist.all_reduce(torch.ones(1))
"""


@pytest.mark.parametrize("launcher", [["--rendezvous", "torch"], ["torchrun"]], ids=["ma_boot", "torchrun"])
def test_a_hang_names_the_rank_that_loads_data(tmp_path: Path, launcher: list[str]) -> None:
    script = tmp_path / "hangs.py"
    script.write_text(HANGS)
    ended = rehearse(tmp_path, "--hang-timeout", "8", "--hang-action", "stop", *launcher, str(script))
    assert ended.code == 124, ended.output
    stacks = [event for node in (0, 1) for event in events(tmp_path, node, "stacks")]
    assert len(stacks) == 2
    for event in stacks:
        assert [fold["ranks"] for fold in event["folded"]] == [[2], [0, 1, 3]], ended.output
        assert "next_batch (hangs.py:7)" in event["folded"][0]["stack"]
        assert (event["suspect"]["node"], event["suspect"]["rank"]) == (1, 2)
