"""Real PyTorch ranks that hang in collectives of gloo: the cause names the collective, its group and the line."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import ma_boot
from tests.functional.frameworks.pythons import WITH_TORCH
from tests.functional.frameworks.torch_jobs import events, rehearse

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]
AT_START = Path(ma_boot.__file__).parent / "for_training" / "at_start"

START = """
import os, time, warnings
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
pairs = [dist.new_group([0, 1], group_desc="tp"), dist.new_group([2, 3], group_desc="tp")]
tp = pairs[rank // 2]
def elsewhere(): time.sleep(600)
for step in range(3):
    dist.all_reduce(torch.ones(4), group=tp)
    dist.all_reduce(torch.ones(2))
"""
MISSING = START + "if rank == 3: elsewhere()\ndist.all_reduce(torch.ones(4), group=tp)\ndist.barrier()\n"


def hang(directory: Path, script: str, *more: str, **variables: str) -> tuple[str, list[dict[str, Any]]]:
    file = directory / "hangs.py"
    file.write_text(script)
    words = ("--hang-timeout", "5", "--hang-action", "stop", *more)
    ended = rehearse(directory, *words, str(file), **variables)
    assert ended.code == 124, ended.output
    return ended.output, [event for node in (0, 1) for event in events(directory, node, "stacks")]


@pytest.mark.parametrize("starter", [["--rendezvous", "torch"], ["--rendezvous", "torch", "torchrun"]])
def test_cause_names_the_collective_that_a_rank_never_entered(tmp_path: Path, starter: list[str]) -> None:
    output, stacks = hang(tmp_path, MISSING, *starter)
    why = "it never entered all_reduce 4 of group tp, in which rank 2 waits, at hangs.py:14; it is in elsewhere (hangs.py:9)"
    assert f"suspected: node 1, rank 3: {why}" in output
    assert len(stacks) == 2
    for event in stacks:
        first, *others = event["stuck"]
        assert (first["label"], first["seq"], first["inside"], first["outside"]) == ("tp", 4, "2", "3")
        assert [(group["label"], group["inside"], group["outside"]) for group in others] == [
            ("default_pg", "0-1", "2-3")
        ]
        assert "wait_for_ma_boot" not in json.dumps(event)
    assert not list(tmp_path.glob("ma_boot-rehearsal/*/node-*/home/ma-user/modelarts/log/*/collectives"))


def test_hang_without_the_option_is_explained_by_stacks(tmp_path: Path) -> None:
    output, stacks = hang(tmp_path, MISSING, "--rendezvous", "torch", MABOOT_COLLECTIVES="off")
    assert [event["stuck"] for event in stacks] == [[], []]
    assert "never entered" not in output


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {"PYTHONPATH": str(AT_START), "PATH": os.environ["PATH"], **variables}
    return subprocess.run(
        [str(WITH_TORCH), "-W", "error", "-c", code], env=environ, capture_output=True, text=True, check=False
    )


FORKS = """
import sys, torch, torch.distributed, threading, multiprocessing, os
assert threading.active_count() == 1, threading.enumerate()
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(abs, [-1, -2]) == [1, 2]
print(len(os.listdir("/proc/self/task")), sorted(os.listdir(os.environ["MABOOT_RECORDS"]))[0].partition(".")[2])
"""


def test_training_with_forks_is_not_disturbed(tmp_path: Path) -> None:
    done = run(FORKS, MABOOT_RECORDS=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.split()[-1] == "pipe"


def test_directory_without_pipes_is_no_error(tmp_path: Path) -> None:
    done = run("import torch.distributed, time; time.sleep(0.5); print(1)", MABOOT_RECORDS="/proc")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
