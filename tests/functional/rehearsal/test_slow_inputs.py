"""Inputs that one node copies for longer than the ranks of the others would wait; rehearsals with real ranks."""

from __future__ import annotations

from pathlib import Path

from tests.functional.rehearsal.jobs import rehearse

# A rendezvous with a timeout of two seconds, in place of torch's.
MEETS = """\
import os, socket, time
rank, at = int(os.environ["RANK"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
until = time.monotonic() + 2
if rank == 0:
    server = socket.create_server(at)
    server.settimeout(2)
    server.accept()
while rank:
    try:
        socket.create_connection(at, 2)
        break
    except OSError:
        if time.monotonic() > until:
            raise
        time.sleep(0.05)
print(f"rank {rank} has met", flush=True)
"""


def test_job_survives_a_node_whose_inputs_take_longer_than_the_rendezvous(laptop: Path) -> None:
    (laptop / "project" / "train.py").write_text(MEETS)
    inputs = {"data": {"obs": "obs://bucket/data/{node}"}}
    (laptop / "mapping.py").write_text(f"PATH_MAPPING_CONFIG = {{'input': {inputs!r}}}\n")
    for node in range(2):
        directory = laptop / "obs" / "bucket" / "data" / str(node)
        directory.mkdir(parents=True)
        (directory / "shard.bin").write_bytes(bytes(12 * 1024))
    ended = rehearse(
        laptop, "--nodes", "2", "--devices-per-node", "1", "--rendezvous", "torch",
        "--path-mapping", "mapping.py", "--obs-root", "obs", "--fault", "obs-slow key=data/1/", "project/train.py",
        more={"RANK_TABLE_FILE": ""},
    )  # fmt: skip
    assert ended.code == 0, ended.output
    assert "rank 0 has met" in ended.output
    assert "rank 1 has met" in ended.output
    assert "waiting until node 1 is ready" in ended.output
