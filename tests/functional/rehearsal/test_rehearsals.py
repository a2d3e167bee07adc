"""A job of 32 nodes with 8 ranks each."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.rehearsals, pytest.mark.timeout(900)]
NODES, DEVICES = 32, 8


def ma_boot(directory: Path, *arguments: str, delay: float = 0.5) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "MABOOT_RANK_TABLE_DELAY": str(delay)}
    argv = [sys.executable, "-m", "ma_boot", "--local", *arguments]
    return subprocess.run(
        argv,
        cwd=directory,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def test_a_job_of_32_nodes_with_8_ranks_each(tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text('echo "rank=$RANK_ID of $RANK_SIZE device=$DEVICE_ID"\n')
    shape = ["--nodes", str(NODES), "--devices-per-node", str(DEVICES)]
    started = time.monotonic()
    ended = ma_boot(tmp_path, *shape, "train.sh", delay=5)
    seconds = time.monotonic() - started
    assert ended.returncode == 0, ended.stdout[-3000:]
    said = set(re.findall(r"rank=(\d+) of 256 device=(\d+)", ended.stdout))
    assert said == {(str(rank), str(rank % DEVICES)) for rank in range(NODES * DEVICES)}
    files = sorted(tmp_path.glob("ma_boot-rehearsal/*/node-*/home/ma-user/rank_table/*.json"))
    assert len(files) == NODES
    assert len({file.read_text() for file in files}) == 1
    servers = json.loads(files[0].read_text())["server_list"]
    assert [server["server_id"] for server in servers] == [f"127.0.0.{node + 1}" for node in range(NODES)]
    ranks = [device["rank_id"] for server in servers for device in server["device"]]
    assert ranks == [str(rank) for rank in range(NODES * DEVICES)]
    sys.stdout.write(f"{NODES} nodes x {DEVICES} ranks: {seconds:.1f} s\n")
