"""A rank under mpirun: says what it sees of its environment, and fails as it is told."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

NAMES = (
    "OMPI_COMM_WORLD_SIZE",
    "GRAPH_OP_RUN",
    "HCCL_WHITELIST_DISABLE",
    "RANK_ID",
    "RANK_TABLE_FILE",
    "RANK_SIZE",
)
rank = os.environ["OMPI_COMM_WORLD_RANK"]
seen = {"rank": rank, **{name: os.environ.get(name) for name in NAMES}}
sys.stdout.write(f"seen {json.dumps(seen)}\n")
sys.stdout.flush()
if len(sys.argv) > 1:
    if rank == "2" and sys.argv[1] != "wait":
        if sys.argv[1] == "raise":
            raise ValueError("planted in rank 2")
        if sys.argv[1].isdecimal():
            sys.exit(int(sys.argv[1]))
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    time.sleep(600)
