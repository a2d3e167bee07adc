"""Calls of `ma_boot.training.checkpoint` reach the ma_boot process that has started the training."""

from __future__ import annotations

import signal
from functools import partial

from ma_boot.node.checkpoints.records.keys import Place
from tests.functional.checkpoints.job import Job
from tests.functional.checkpoints.output import keys
from tests.functional.node import Node, eventually
from tests.obs import MemoryObs

SAYS = """
import os, sys, time
from pathlib import Path
from ma_boot.training import checkpoint
out, last, rank = Path(sys.argv[1]), int(sys.argv[2]), os.environ["RANK_ID"]
begin = int(os.environ.get("MABOOT_RESTORED_STEP", 0))
print(f"rank {rank} resumes from {begin}", flush=True)
for step in range(begin + 10, last + 1, 10):
    (out / f"iter_{step}").mkdir(parents=True, exist_ok=True)
    (out / f"iter_{step}" / f"rank_{rank}.bin").write_bytes(f"{step} of {rank};".encode() * 10_000)
    if not (out / f"silent_{step}").exists():
        checkpoint(step)
    while not (out / f"go_{step}").exists():
        time.sleep(0.02)
"""


def test_step_is_published_when_all_ranks_have_called_checkpoint(node: Node, obs: MemoryObs) -> None:
    """By its names it would never be complete: the file `done` is never written."""
    job = Job(node, obs, checkpoint=["iter_{step}/rank_{rank}.bin", "iter_{step}/done"])
    (node.home / "train.py").write_text(SAYS)
    (job.out / "silent_20").touch()
    job.go(10)
    running = node.start(*job.arguments(100))
    eventually(lambda: job.published() == 1, "step 10 in OBS")
    eventually(lambda: (job.out / "iter_20/rank_1.bin").exists(), "step 20, without a call")
    running.signal(signal.SIGTERM)
    ended = running.end()
    assert ended.code == 128 + signal.SIGTERM
    assert "checkpoint step 20 was never published: no rank has called checkpoint for it" in ended.output
    assert job.published() == 1
    (job.out / "silent_20").unlink()
    (job.out / "silent_30").touch()
    job.go(20, 30)
    again = node.boot(*job.arguments(30))
    assert again.code == 0, again.output
    assert "warning: checkpoint step 30 was never published" in again.output
    assert "ckpt/iter_30/rank_1.bin" in keys(job.store), "it has files, and is in no checkpoint"
    assert "rank 0 resumes from 10" in again.output
    assert "step 20 is the last one of this node" in again.output, "step 30 has no call"


def test_call_for_a_step_without_files_makes_no_checkpoint(node: Node, obs: MemoryObs) -> None:
    """The script saves elsewhere, or under other names: the next start must not resume from an empty checkpoint."""
    job = Job(node, obs, checkpoint="step_{step}.pt")
    (node.home / "train.py").write_text(SAYS)
    job.go(10, 20)
    ended = node.boot(*job.arguments(20))
    assert ended.code == 0, ended.output
    assert job.published() == 0
    assert "rank 0 resumes from 0" in node.boot(*job.arguments(20)).output


TWO = """
import os, sys, time
from pathlib import Path
from ma_boot.training import checkpoint, restored_step
rank = os.environ["RANK_ID"]
print(f"rank {rank} resumes from", *map(restored_step, (None, "generator", "critic/below", os.path.abspath("critic"))), flush=True)
try:
    restored_step("elsewhere")
except ValueError as error:
    print(f"rank {rank}: {error}", flush=True)
for step, out in ((1, "generator"), (2, "generator"), (2, "critic"), (3, "critic")):
    directory = Path(out, f"iter_{step}")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"rank_{rank}.bin").write_bytes(f"{step} of {rank};".encode() * 10_000)
    if step == 3:
        checkpoint(step)
    else:
        checkpoint(step, directory=out)
while not Path("enough").exists():
    time.sleep(0.02)
sys.exit(3)
"""


def test_calls_for_several_outputs_are_separated_by_directory(node: Node, obs: MemoryObs) -> None:
    """By names no step is ever complete: `done` is never written. Each output has its own newest checkpoint."""
    job = Job(node, obs)
    (node.home / "train.py").write_text(TWO)
    pattern = {
        "checkpoint": ["iter_{step}/rank_{rank}.bin", "iter_{step}/done"],
        "restore": "latest",
        "interval": 1,
    }
    outputs = {name: {"obs": f"obs://bucket/{name}", **pattern} for name in ("generator", "critic")}
    (node.root / "mapping.py").write_text(f"PATH_MAPPING_CONFIG = { ({'output': outputs})!r}\n")

    def published(expected: list[str]) -> bool:
        places = {name: Place("bucket", f"{name}/") for name in outputs}
        return expected == sorted(
            f"{name} {known.name.step}"
            for name, place in places.items()
            for known in place.list_checkpoints(keys(job.store, place.manifests))
        )

    whole = ["critic 2", "critic 3", "generator 1", "generator 2"]
    for restored, expected in (("None None None None", whole), ("2 2 3 3", sorted(whole * 2))):
        (node.home / "enough").unlink(missing_ok=True)
        running = node.start(*job.arguments(0))
        for rank in (0, 1):  # what one says alone, before the other begins, is a step, too
            running.until(f"rank {rank}: ")
        eventually(partial(published, expected), f"{expected} published")
        (node.home / "enough").touch()
        ended = running.end()
        assert ended.code == 3, ended.output
        for rank in (0, 1):
            assert f"[rank {rank}] rank {rank} resumes from {restored}\n" in ended.output
            assert (
                f"/home/elsewhere is in no output with checkpoints; those of this job are: {node.home}/critic, "
                in ended.output
            )
