"""Real torch.distributed.checkpoint on two nodes without a common disk: killed, restored, and resumed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fault.checkpoint_kills import KilledJob, Training, run_kills
from tests.fault.seeds import drawn
from tests.functional.frameworks import seeded_faults
from tests.functional.frameworks.checkpoint_jobs import PATIENCE, Job, damage_in, digests, documents
from tests.functional.frameworks.pythons import WITH_TORCH
from tests.functional.node import PROGRAMS, Ended, eventually
from tests.obs import MemoryObs

KILLS = 3  # `make test-kill` has 100
DCP = Training(
    ["--python", str(WITH_TORCH), "--rendezvous", "torch"],
    [str(PROGRAMS / "dcp_job.py"), "1000000", "0.2"],
    "auto",
)

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    (tmp_path / "mapping.yaml").write_text(
        "output: {checkpoints: {obs: 'obs://bucket/ckpt/', checkpoint: auto, keep: 3, restore: latest, interval: 1}}\n"
    )
    job = Job(tmp_path, [
        "--python", str(WITH_TORCH), "--rendezvous", "torch", "--path-mapping", "mapping.yaml", "--take-over",
        str(PROGRAMS / "dcp_job.py"), str(seeded_faults.STEPS),
    ])  # fmt: skip
    yield job
    job.clean_up()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A run to which nothing happens."""
    return seeded_faults.run(tmp_path_factory.mktemp("whole"), DCP, None)[1]


@pytest.mark.parametrize("victim", ["a rank", "everything"])
def test_killed_job_resumes_from_the_newest_complete_checkpoint(
    job: Job, undisturbed: Ended, victim: str
) -> None:
    """On every node the same files, byte for byte as in the store, and in the end the same weights."""
    dice = random.Random(victim)
    job.arguments.append("1")
    log = job.start()
    job.wait_for_checkpoints(2, log)
    time.sleep(dice.random() * 2)  # any moment
    if victim == "a rank":
        os.kill(dice.choice(documents(log.read_text(), "restored"))["pid"], signal.SIGKILL)
        killed = job.ended(log)
        assert killed.code == 137, killed.output
    else:
        job.kill_everything()
    newest = job.newest()
    assert newest is not None
    job.arguments[-1] = "0"
    again = job.ended(job.start())
    assert again.code == 0, again.output
    restored = documents(again.output, "restored")
    assert [facts["step"] for facts in restored] == [newest["step"]] * 4
    assert all(facts["source"].startswith("obs://bucket/ckpt/attempt-") for facts in restored)
    trained, expected = (
        {facts["weights"] for facts in documents(ended.output, "trained")} for ended in (again, undisturbed)
    )
    assert trained == expected, "as if nothing had happened"
    kept = [facts["step"] for facts in job.complete_checkpoints()]
    assert kept[0] == str(seeded_faults.STEPS)
    job.prune(keep=3)  # a checkpoint that node 1 completes after node 0 has ended removes none
    assert {facts["step"] for facts in job.complete_checkpoints()} == {*kept[:3], newest["step"]}
    assert {facts["step"] for facts in documents(again.output, "saved")} == set(
        range(int(newest["step"]) + 1, seeded_faults.STEPS + 1)
    )


def killed_with_a_set(job: Job) -> dict[str, Any]:
    """Returns the newest checkpoint of a job that was killed when it had one."""
    job.arguments.append("1")
    job.wait_for_checkpoints(1, job.start())
    job.kill_everything()
    newest = job.newest()
    assert newest is not None
    return newest


def test_every_node_gets_the_files_of_all(job: Job) -> None:
    """DCP reads `.metadata` and the files of other ranks on each node."""
    newest = killed_with_a_set(job)
    expected = digests(newest["files"])
    log = job.start()
    _all_ranks_run(log)
    assert [facts["files"] for facts in documents(log.read_text(), "restored")] == [expected] * 4
    assert sorted(Path(path).name for path in expected) == [
        ".metadata",
        *(f"__{rank}_0.distcp" for rank in range(4)),
    ]


def test_fewer_nodes_resume_from_a_checkpoint_of_more(job: Job) -> None:
    """DCP can be loaded by another number of ranks: the one node gets the files of both."""
    newest = killed_with_a_set(job)
    assert len(newest["files"]) == 5
    job.count = 1
    job.arguments[-2:] = [str(int(newest["step"]) + 1), "0"]
    ended = job.ended(job.start())
    assert ended.code == 0, ended.output
    restored = documents(ended.output, "restored")
    assert [(facts["step"], facts["files"]) for facts in restored] == [
        (newest["step"], digests(newest["files"]))
    ] * 2
    last = job.newest()
    assert last is not None
    assert last["step"] == str(int(newest["step"]) + 1)


@pytest.mark.timeout(1800)
def test_job_killed_at_any_moment_resumes_from_the_newest_complete_checkpoint(
    obs: MemoryObs, tmp_path: Path
) -> None:
    print(run_kills(KilledJob(tmp_path, obs, DCP), drawn(), KILLS))


@pytest.mark.kill
@pytest.mark.timeout(14400)
def test_a_job_killed_at_100_moments(obs: MemoryObs, tmp_path: Path) -> None:
    print(run_kills(KilledJob(tmp_path, obs, DCP), drawn(), 100))


@pytest.mark.parametrize("seed", seeded_faults.seeds(3, 32))
def test_after_seeded_faults_the_losses_are_those_of_an_undisturbed_job(
    tmp_path: Path, undisturbed: Ended, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    seeded_faults.check(tmp_path, DCP, seed, undisturbed, monkeypatch)


def _all_ranks_run(log: Path) -> None:
    eventually(lambda: len(documents(log.read_text(), "restored")) == 4, "all ranks run", PATIENCE)


def test_a_cut_file_of_torch_save_is_found(tmp_path: Path) -> None:
    """By its format: at each of 200 lengths; and the whole one, in both formats of PyTorch, is not."""
    program = """
import torch
state = {"weights": [torch.rand(100, 20) for _ in range(5)], "step": 3}
torch.save(state, "new.pt"); torch.save(state, "old.pt", _use_new_zipfile_serialization=False)
"""
    subprocess.run([str(WITH_TORCH), "-c", program], cwd=tmp_path, check=True)
    whole = {name: (tmp_path / name).read_bytes() for name in ("new.pt", "old.pt")}
    assert {damage_in("a.pt", content) for content in whole.values()} == {""}
    lengths = range(2, len(whole["new.pt"]), len(whole["new.pt"]) // 200)
    assert [length for length in lengths if not damage_in("a.pt", whole["new.pt"][:length])] == []
