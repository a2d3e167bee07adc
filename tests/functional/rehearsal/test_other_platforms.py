"""Rehearsals of Volcano and MindCluster: two nodes, real ranks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

from tests.functional.node import alive

PROGRAM = """
import json, os
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "RANK_ID", "RANK_SIZE", "DEVICE_ID", "MASTER_ADDR",
         "MS_ROLE", "GROUP_RANK")
print("SEEN", json.dumps({name: os.environ.get(name) for name in names}))
"""


def rehearse(
    place: Path, platform: str, *options: str, program: str = PROGRAM
) -> subprocess.CompletedProcess[str]:
    """A rehearsal of two nodes with two ranks each."""
    code = place / "code"
    code.mkdir(exist_ok=True)
    (code / "train.py").write_text(program)
    job = ("--local", "-v", "--platform", platform, "--nodes", "2", "--devices-per-node", "2")
    argv = (sys.executable, "-m", "ma_boot", *job, *options, "code/train.py")
    return subprocess.run(argv, cwd=place, capture_output=True, text=True, timeout=120, check=False)


def seen(output: str) -> List[Dict[str, Any]]:
    """What the ranks saw, in their order."""
    found = [json.loads(line.partition("SEEN ")[2]) for line in output.splitlines() if "SEEN {" in line]
    return sorted(found, key=lambda one: int(one["RANK_ID"] or one["RANK"]))


@pytest.mark.parametrize("rendezvous", ["rank-table", "torch"])
def test_ranks_of_a_rehearsal_see_the_same_on_every_platform(tmp_path: Path, rendezvous: str) -> None:
    shown = {"modelarts": "ModelArts on Volcano", "volcano": "Volcano", "mindcluster": "MindCluster"}
    done = {platform: rehearse(tmp_path, platform, "--rendezvous", rendezvous) for platform in shown}
    for platform, one in done.items():
        assert one.returncode == 0, one.stdout + one.stderr
        assert f"[ma_boot] platform: {shown[platform]}" in one.stdout
        assert len(seen(one.stdout)) == 4
    assert seen(done["volcano"].stdout) == seen(done["modelarts"].stdout) == seen(done["mindcluster"].stdout)


@pytest.mark.parametrize("platform", ["volcano", "mindcluster"])
def test_a_table_that_lacks_a_pod_starts_no_node(tmp_path: Path, platform: str) -> None:
    """A node with the other's entry missing would wait for nobody: it would be a job of its own."""
    done = rehearse(tmp_path, platform, "--fault", "table-lacks pod=1 for=1s")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [one["RANK_SIZE"] for one in seen(done.stdout)] == ["4"] * 4


def test_a_platform_that_is_not_simulated_is_refused(tmp_path: Path) -> None:
    done = rehearse(tmp_path, "slurm")
    assert done.returncode == 64
    assert (
        "--platform slurm: expected modelarts, volcano, mindcluster with --local" in done.stderr + done.stdout
    )


LEAVES = """
import os, subprocess
for kept in ({**os.environ, "MABOOT_RUN": "another"}, {"MABOOT_RUN": "another"}):
    left = subprocess.Popen(["/bin/sleep", "600"], env=kept, stdout=-3, start_new_session=True)
    print("LEFT", left.pid, flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("platform", ["modelarts", "volcano", "mindcluster"])
def test_what_a_node_leaves_behind_is_removed_and_said(tmp_path: Path, platform: str) -> None:
    """Whatever its environment is, and without a fault: here the marker is that of another ma_boot."""
    done = rehearse(tmp_path, platform, program=LEAVES)
    left = [int(line.split()[-1]) for line in done.stdout.splitlines() if "LEFT " in line]
    assert len(left) == 8, done.stdout + done.stderr
    assert [pid for pid in left if alive(pid)] == []
    (line,) = [line for line in done.stdout.splitlines() if "outlived the nodes" in line]
    assert "8 processes" in line
    assert done.returncode == 0
