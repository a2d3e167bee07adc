"""Real torch.distributed.checkpoint on two nodes without a common disk: killed, restored, and gone on from there."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Iterator

import pytest

from tests.functional.frameworks.checkpoint_jobs import PATIENCE, Job, digests, said
from tests.functional.frameworks.test_torch import PYTHON
from tests.functional.node import PROGRAMS, eventually

STEPS = 12

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    (tmp_path / "mapping.yaml").write_text(
        "output: {checkpoints: {obs: 'obs://bucket/ckpt/', checkpoint: auto, keep: 3, restore: latest, interval: 1}}\n"
    )
    job = Job(tmp_path, [
        "--python", str(PYTHON), "--rendezvous", "torch", "--path-mapping", "mapping.yaml",
        str(PROGRAMS / "dcp_job.py"), str(STEPS),
    ])  # fmt: skip
    yield job
    job.clean_up()


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a run without checkpoints ends with."""
    job = Job(tmp_path_factory.mktemp("whole"), [
        "--python", str(PYTHON), "--rendezvous", "torch", str(PROGRAMS / "dcp_job.py"), str(STEPS), "0",
    ])  # fmt: skip
    ended = job.ended(job.start())
    (weights,) = {one["weights"] for one in said(ended.output, "trained")}
    return str(weights)


@pytest.mark.parametrize("victim", ["a rank", "everything"])
def test_a_killed_job_goes_on_from_the_newest_whole_set(job: Job, weights: str, victim: str) -> None:
    """On every node the same files, byte for byte as in the store, and in the end the same weights."""
    dice = random.Random(victim)
    job.arguments.append("1")
    log = job.start()
    job.wait_for_sets(2, log)
    time.sleep(dice.random() * 2)  # a moment that nobody has chosen
    if victim == "a rank":
        os.kill(dice.choice(said(log.read_text(), "restored"))["pid"], signal.SIGKILL)
        killed = job.ended(log)
        assert killed.code == 137, killed.output
    else:
        job.kill_everything()
    newest = job.newest()
    assert newest is not None
    job.arguments[-1] = "0"
    again = job.ended(job.start())
    assert again.code == 0, again.output
    restored = said(again.output, "restored")
    assert [one["step"] for one in restored] == [newest["step"]] * 4
    assert all(one["source"].startswith("obs://bucket/ckpt/attempt-") for one in restored)
    trained = said(again.output, "trained")
    assert {one["weights"] for one in trained} == {weights}, "as if nothing had happened"
    kept = [one["step"] for one in job.whole_sets()]
    assert kept[0] == str(STEPS)
    assert len([step for step in kept if step != newest["step"]]) <= 3, "and the one that was restored"
    assert {one["step"] for one in said(again.output, "saved")} == set(
        range(int(newest["step"]) + 1, STEPS + 1)
    )


def test_every_node_gets_the_files_of_all(job: Job) -> None:
    """DCP reads `.metadata` and the files of other ranks on each node."""
    job.arguments.append("1")
    log = job.start()
    job.wait_for_sets(1, log)
    job.kill_everything()
    newest = job.newest()
    assert newest is not None
    expected = digests(newest["files"])
    log = job.start()
    eventually(lambda: len(said(log.read_text(), "restored")) == 4, "all ranks run", PATIENCE)
    assert [one["files"] for one in said(log.read_text(), "restored")] == [expected] * 4
    assert sorted(Path(path).name for path in expected) == [
        ".metadata",
        *(f"__{rank}_0.distcp" for rank in range(4)),
    ]
