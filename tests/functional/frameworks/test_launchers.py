"""Command lines of the how-to page on launchers, with the real DeepSpeed, Accelerate, torchrun and Ray."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.frameworks.pythons import WITH_TORCH
from tests.functional.launchers.page import command_lines, make_project, places
from tests.functional.node import PROGRAMS, Ended

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

LINES = command_lines(stood_in=False)
ON_RAY = [line for line in LINES if "ray.sh" in line]
# The page has the line with DeepSpeed's own launcher for one node only.
BY_RANKS = [
    (line, nodes)
    for line in LINES
    for nodes in ([1] if line.startswith("ma_boot deepspeed") else [1, 2])
    if line not in ON_RAY
]


def rehearse(project: Path, line: str, nodes: int, **variables: str) -> Ended:
    options = ["--local", "--nodes", str(nodes), "--devices-per-node", "2", "--python", str(WITH_TORCH)]
    options += ["--stop-timeout", "3"]  # seconds, since Ray's processes take all of them
    done = subprocess.run(
        [sys.executable, "-m", "ma_boot", *options, *shlex.split(line)[1:]],
        cwd=project, env={**os.environ, **variables},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout)


@pytest.mark.parametrize(("line", "nodes"), BY_RANKS, ids=lambda value: str(value)[:40])
def test_the_ranks_of_all_nodes_meet(tmp_path: Path, line: str, nodes: int) -> None:
    project = make_project(tmp_path)
    shutil.copy(PROGRAMS / "launched.py", project / "train.py")
    # DeepSpeed's launcher looks for cards, of which the test's machine has none.
    ended = rehearse(project, line, nodes, DS_ACCELERATOR="cpu")
    assert ended.code == 0, ended.output
    assert places(ended.output) == [f"{rank} of {2 * nodes}" for rank in range(2 * nodes)]


@pytest.fixture
def short_directory() -> Iterator[str]:
    """A directory whose path is short enough for the sockets that Ray makes in it."""
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as directory:
        yield directory


@pytest.mark.parametrize("line", ON_RAY, ids=["Ray", "verl"])
def test_ray_uses_the_cards_of_all_nodes(tmp_path: Path, short_directory: str, line: str) -> None:
    project = make_project(tmp_path)
    # The second is a stand-in for verl's driver: it gets the same arguments.
    for name in ("train.py", "verl/trainer/main_ppo.py"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROGRAMS / "on_ray.py", project / name)
    ended = rehearse(project, line, 2, RAY_TMPDIR=short_directory, RAY_USAGE_STATS_ENABLED="0")
    arguments = r"trainer\.nnodes=2 trainer\.n_gpus_per_node=2" if "verl" in line else ""
    assert re.search(rf"\[node 0\] \[command\] TRAINED on 2 of 2 {arguments}\n", ended.output), ended.output
    assert ended.output.count("TRAINED") == 1
    assert ended.code == 0, ended.output


FAILS = """
import ray

class Trainer:
    def step(self):
        raise ValueError("planted in a worker")

ray.init(address="auto")
ray.get(ray.remote(Trainer).remote().step.remote())
"""


def test_failure_of_a_ray_worker_is_the_cause(tmp_path: Path, short_directory: str) -> None:
    project = make_project(tmp_path)
    (project / "train.py").write_text(FAILS)
    ended = rehearse(project, ON_RAY[0], 1, RAY_TMPDIR=short_directory, RAY_USAGE_STATS_ENABLED="0")
    assert ended.code == 1, ended.output
    last = [line for line in ended.output.splitlines() if line.startswith("[ma_boot] exit code 1: ")]
    assert "ValueError: planted in a worker" in last[0], ended.output
    assert "RayTaskError" not in last[0]
