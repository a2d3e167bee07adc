"""A job of 32 nodes with 8 ranks each."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import pytest

from tests.functional.rehearsal.jobs import end, start

pytestmark = [pytest.mark.rehearsals, pytest.mark.timeout(900)]
NODES, DEVICES = 32, 8


def test_a_job_of_32_nodes_with_8_ranks_each(laptop: Path) -> None:
    (laptop / "project" / "train.sh").write_text('echo "rank=$RANK_ID of $RANK_SIZE device=$DEVICE_ID"\n')
    shape = ["--nodes", str(NODES), "--devices-per-node", str(DEVICES)]
    started = time.monotonic()
    ended = end(start(laptop, *shape, "project/train.sh", delay="5"), 900)
    seconds = time.monotonic() - started
    assert ended.code == 0, ended.output[-3000:]
    ranks_and_devices = set(re.findall(rf"rank=(\d+) of {NODES * DEVICES} device=(\d+)", ended.output))
    assert ranks_and_devices == {(str(rank), str(rank % DEVICES)) for rank in range(NODES * DEVICES)}
    files = sorted(laptop.glob("ma_boot-rehearsal/*/node-*/home/ma-user/rank_table/*.json"))
    assert len(files) == NODES
    assert len({file.read_text() for file in files}) == 1
    servers = json.loads(files[0].read_text())["server_list"]
    assert [server["server_id"] for server in servers] == [f"127.0.0.{node + 1}" for node in range(NODES)]
    ranks = [device["rank_id"] for server in servers for device in server["device"]]
    assert ranks == [str(rank) for rank in range(NODES * DEVICES)]
    sys.stdout.write(f"{NODES} nodes x {DEVICES} ranks: {seconds:.1f} s\n")
