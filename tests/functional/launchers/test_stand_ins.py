"""Command lines of the how-to page on launchers that a stand-in runs: the nodes train one job."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.functional.launchers.page import STAND_INS, STOOD_IN, command_lines, make_project, places

WITHOUT_NODES = ("NNODES", "NODE_RANK", "NPROC_PER_NODE", "MASTER_ADDR", "MASTER_PORT")


def test_each_stand_in_is_on_the_page() -> None:
    lines = command_lines(stood_in=True)
    assert len(lines) == len(STOOD_IN)
    assert len(command_lines(stood_in=False)) >= 7


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("line", command_lines(stood_in=True), ids=lambda line: str(line)[:50])
def test_the_nodes_train_one_job(tmp_path: Path, line: str, nodes: int) -> None:
    project = make_project(tmp_path)
    options = ["--local", "--nodes", str(nodes), "--devices-per-node", "2", "--code-dir", "."]
    own = {name: value for name, value in os.environ.items() if name not in WITHOUT_NODES}
    done = subprocess.run(
        [sys.executable, "-m", "ma_boot", *options, *shlex.split(line)[1:]],
        cwd=project, env={**own, "PATH": f"{STAND_INS}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    size = 2 * nodes
    assert places(done.stdout) == [f"{rank} of {size}" for rank in range(size)]
    assert "warning" not in done.stdout.lower(), done.stdout
