"""A training that trains nothing, for the catalogue of faults: `trivial.py SECONDS FILES DIGEST`.

It fails where `ma_boot` has not kept its word: an input whose SHA-256 is not DIGEST, a rank table that is
not that of all nodes, or has it in the wrong place. Then it leaves FILES files for its rank, starts a process
that would outlive it, and prints a line every tenth of a second. Standard library only: it is copied to the
nodes.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict

INPUT, OUTPUT = "data", "out"
_PAUSE_SECONDS = 0.1


def _table_is_right(environ: Dict[str, str]) -> bool:
    """Every device of every node is in it, and ours is this rank's."""
    table = json.loads(Path(environ["RANK_TABLE_FILE"]).read_text())
    found = {
        (server["server_id"], device["device_id"]): device["rank_id"]
        for server in table["server_list"]
        for device in server["device"]
    }
    size = int(environ["VC_WORKER_NUM"]) * int(environ["MA_NUM_GPUS"])
    ours = found.get((environ["MA_CURRENT_IP"], environ["DEVICE_ID"]))
    servers = {server for server, _ in found}
    return (
        sorted(map(int, found.values())) == list(range(size))
        and servers == set(environ["VC_WORKER_HOSTS"].split(","))
        and (ours, str(size)) == (environ["RANK_ID"], environ["RANK_SIZE"])
    )


def _train(seconds: float, files: int, digest: str) -> None:
    if hashlib.sha256(Path(INPUT, "x").read_bytes()).hexdigest() != digest:
        sys.exit("the input is not what is in OBS")
    if not _table_is_right(dict(os.environ)):
        sys.exit("the rank table is not that of the job")
    output = Path(OUTPUT)
    output.mkdir(exist_ok=True)
    for number in range(files):
        (output / f"rank-{os.environ['RANK_ID']}-{number}").write_text(digest)
    loader = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, start_new_session=True)
    until = time.monotonic() + seconds
    step = 0
    while time.monotonic() < until:
        step += 1
        sys.stdout.write(f"step {step}\n")
        sys.stdout.flush()
        time.sleep(_PAUSE_SECONDS)
    loader.kill()
    loader.wait()


if __name__ == "__main__":
    _train(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3])  # the platform appends further arguments
