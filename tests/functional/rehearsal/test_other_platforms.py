"""Rehearsals of Volcano and MindCluster: two nodes, real ranks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.functional.node import Ended, alive
from tests.functional.rehearsal.jobs import SHAPE, rehearse

PROGRAM = """
import json, os
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "RANK_ID", "RANK_SIZE", "DEVICE_ID", "MASTER_ADDR",
         "MS_ROLE", "GROUP_RANK")
print("SEEN", json.dumps({name: os.environ.get(name) for name in names}))
"""


def rehearse_on(platform: str, laptop: Path, *options: str, program: str = PROGRAM) -> Ended:
    """A rehearsal of two nodes with two ranks each."""
    (laptop / "project" / "train.py").write_text(program)
    return rehearse(laptop, "--platform", platform, *SHAPE, *options, "project/train.py")


def seen(ended: Ended) -> list[dict[str, Any]]:
    """What the ranks saw, in their order."""
    lines = [line.partition("SEEN ")[2] for line in ended.output.splitlines() if "SEEN {" in line]
    return sorted(map(json.loads, lines), key=lambda rank: int(rank["RANK_ID"] or rank["RANK"]))


@pytest.mark.parametrize("rendezvous", ["rank-table", "torch"])
def test_ranks_of_a_rehearsal_see_the_same_on_every_platform(laptop: Path, rendezvous: str) -> None:
    shown = {"modelarts": "ModelArts on Volcano", "volcano": "Volcano", "mindcluster": "MindCluster"}
    ends = {platform: rehearse_on(platform, laptop, "--rendezvous", rendezvous) for platform in shown}
    for platform, ended in ends.items():
        assert ended.code == 0, ended.output
        assert f"[ma_boot] platform: {shown[platform]}" in ended.output
        assert len(seen(ended)) == 4
    assert seen(ends["volcano"]) == seen(ends["modelarts"]) == seen(ends["mindcluster"])


@pytest.mark.parametrize("platform", ["volcano", "mindcluster"])
def test_a_table_that_lacks_a_pod_starts_no_node(laptop: Path, platform: str) -> None:
    """A node with the other's entry missing would wait for nobody: it would be a job of its own."""
    ended = rehearse_on(platform, laptop, "--fault", "table-lacks pod=1 for=1s")
    assert ended.code == 0, ended.output
    assert [rank["RANK_SIZE"] for rank in seen(ended)] == ["4"] * 4


LEAVES = """
import os, subprocess
for kept in ({**os.environ, "MABOOT_RUN": "another"}, {"MABOOT_RUN": "another"}):
    left = subprocess.Popen(["/bin/sleep", "600"], env=kept, stdout=-3, start_new_session=True)
    print("LEFT", left.pid, flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("platform", ["modelarts", "volcano", "mindcluster"])
def test_leftovers_of_a_node_are_removed_and_reported(laptop: Path, platform: str) -> None:
    """Whatever its environment is, and without a fault: here the marker is that of another ma_boot."""
    ended = rehearse_on(platform, laptop, program=LEAVES)
    lines = ended.output.splitlines()
    left = [int(line.split()[-1]) for line in lines if "LEFT " in line]
    assert len(left) == 8, ended.output
    assert [pid for pid in left if alive(pid)] == []
    assert "8 processes" in next(line for line in lines if "outlived the nodes" in line)
    assert ended.code == 0
