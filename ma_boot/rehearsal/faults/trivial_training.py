"""A trivial training for the catalogue of faults: `trivial_training.py SECONDS FILES DIGEST`.

It fails if its input does not have the SHA-256 DIGEST, or if the rank table does not have all nodes, with
this rank at the right place. Otherwise it writes FILES output files, starts a process that would outlive it,
and prints a line every tenth of a second. Standard library only, since it is copied to the nodes.
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
    """Whether it has every device of every node, and ours with this rank."""
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
        sys.exit("the input differs from the object in OBS")
    if not _table_is_right(dict(os.environ)):
        sys.exit("the rank table is not the one of this job")
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
