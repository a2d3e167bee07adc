"""A rank under mpirun: says what it sees of its environment, and fails as it is told."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

NAMES = (
    "OMPI_COMM_WORLD_SIZE",
    "GRAPH_OP_RUN",
    "HCCL_WHITELIST_DISABLE",
    "RANK_ID",
    "RANK_TABLE_FILE",
    "RANK_SIZE",
)


def wait_for_the_others() -> None:
    """Until all ranks run and mpirun, which has started them, waits for them: else it may not say who failed."""
    up = Path(os.environ["HOME"])
    while len(list(up.glob("up.*"))) < int(os.environ["OMPI_COMM_WORLD_SIZE"]):
        time.sleep(0.01)
    while Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(") ")[2][0] != "S":
        time.sleep(0.01)


rank = os.environ["OMPI_COMM_WORLD_RANK"]
seen = {"rank": rank, **{name: os.environ.get(name) for name in NAMES}}
sys.stdout.write(f"seen {json.dumps(seen)}\n")
sys.stdout.flush()
if len(sys.argv) > 1:
    Path(os.environ["HOME"], f"up.{rank}").touch()
    if rank == "2" and sys.argv[1] != "wait":
        wait_for_the_others()
        if sys.argv[1] == "raise":
            raise ValueError("planted in rank 2")
        if sys.argv[1].isdecimal():
            sys.exit(int(sys.argv[1]))
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    time.sleep(600)
