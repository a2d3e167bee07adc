"""A trivial training for the catalogue of faults: `trivial_training.py SECONDS FILES DIGEST NODES DEVICES`.

It fails if its input does not have the SHA-256 DIGEST, or if the rank table does not have NODES nodes of
DEVICES devices each, with this rank at the right place. Otherwise it writes FILES output files, starts a
process that would outlive it, and prints a line every tenth of a second. Standard library only, since it is
copied to the nodes.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

INPUT, OUTPUT = "data", "out"
_PAUSE_SECONDS = 0.1


def _table_is_right(environ: dict[str, str], nodes: int, devices: int) -> bool:
    """Whether it has every device of every node, and ours with this rank.

    Servers are compared by address, which each platform tells by a name of its own.
    """
    table = json.loads(Path(environ["RANK_TABLE_FILE"]).read_text())
    ranks = {
        (server.get("host_ip", server["server_id"]), device["device_id"]): device["rank_id"]
        for server in table["server_list"]
        for device in server["device"]
    }
    own = next(environ[name] for name in ("MA_CURRENT_IP", "HOST_IP", "XDL_IP") if name in environ)
    servers = {server for server, _ in ranks}
    hosts = environ.get("VC_WORKER_HOSTS")  # MindCluster tells none
    size = nodes * devices
    return (
        sorted(map(int, ranks.values())) == list(range(size))
        and (len(servers) == nodes if hosts is None else servers == set(hosts.split(",")))
        and (ranks.get((own, environ["DEVICE_ID"])), str(size)) == (environ["RANK_ID"], environ["RANK_SIZE"])
    )


def _train(seconds: float, files: int, digest: str, nodes: int, devices: int) -> None:
    if hashlib.sha256(Path(INPUT, "x").read_bytes()).hexdigest() != digest:
        sys.exit("the input differs from the object in OBS")
    if not _table_is_right(dict(os.environ), nodes, devices):
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
    words = sys.argv[1:]  # the platform appends further ones
    _train(float(words[0]), int(words[1]), words[2], int(words[3]), int(words[4]))
