"""The example with MindSpore, killed with SIGKILL: all ranks resume from the newest complete checkpoint."""

from __future__ import annotations

import hashlib
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault.checkpoint_kills import KilledJob, Training, run_kills
from tests.fault.seeds import drawn
from tests.functional.frameworks import seeded_faults
from tests.functional.frameworks.checkpoint_jobs import Job, digests
from tests.functional.frameworks.pythons import WITH_MINDSPORE
from tests.functional.node import PROGRAMS, Ended
from tests.mindspore_end import again_after_a_crash
from tests.obs import MemoryObs

EXAMPLE = Path(__file__).parents[3] / "examples" / "mindspore_cpu"
MAPPING = """
input: {data: 'obs://bucket/images/'}
output:
  checkpoints: {obs: 'obs://bucket/ckpt/', checkpoint: auto, keep: 3, restore: latest, interval: 1}
"""
KILLS = 3  # `make test-kill` has 100
MODEL_CHECKPOINT = Training(
    ["--python", str(WITH_MINDSPORE), "--rendezvous", "mindspore"],
    [str(PROGRAMS / "ms_job.py"), "1000000", "0.2"],
    "auto",
    rank_of=lambda path: int(path.split("/")[0].rpartition("_")[2]),
)

pytestmark = [pytest.mark.mindspore, pytest.mark.timeout(900)]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    images = tmp_path / "obs" / "bucket" / "images"
    images.mkdir(parents=True)
    dice = random.Random(0)
    records = [bytes([dice.randrange(10)]) + dice.randbytes(3 * 32 * 32) for _ in range(80)]
    (images / "data_batch_1.bin").write_bytes(b"".join(records))
    (tmp_path / "mapping.yaml").write_text(MAPPING)
    job = Job(tmp_path, [
        "--python", str(WITH_MINDSPORE), "--rendezvous", "mindspore", "--path-mapping", "mapping.yaml", "--take-over",
        str(EXAMPLE / "train.py"), "--data", "data", "--checkpoints", "checkpoints", "--batch-size", "10", "--epochs",
    ])  # fmt: skip
    yield job
    job.clean_up()


def test_killed_job_resumes_from_the_newest_complete_checkpoint(job: Job) -> None:
    job.arguments.append("10000")
    log = job.start()
    job.wait_for_checkpoints(2, log)
    time.sleep(random.Random(17).random() * 3)  # any moment
    job.kill_everything()
    newest = job.newest()
    assert newest is not None
    epoch = int(newest["step"].split("_")[0])
    assert sorted(newest["files"]) == [f"rank_{rank}/cnn-{epoch}_2.ckpt" for rank in range(4)]
    published = digests(newest["files"])
    job.arguments[-1] = str(epoch + 1)
    before = len(job.started)
    again = again_after_a_crash(lambda: job.ended(job.start()), "parameters equal on all 4 ranks")
    assert again.code == 0, again.output
    if len(job.started) == before + 1:  # else the repeated run has resumed from the checkpoint of the first
        assert again.output.count(f"resumed from epoch {epoch}\n") == 4
        assert set(re.findall(r"\] epoch: (\d+) step", again.output)) == {str(epoch + 1)}
        disks = job.root.glob(f"nodes-{before}/*/node-*/home/ma-user/checkpoints/rank_*/cnn-{epoch}_2.ckpt")
        restored = {
            f"{path.parent.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest() for path in disks
        }
        assert restored == published, "each node has its ranks' files, byte for byte"
    last = job.newest()
    assert last is not None
    assert last["step"] == f"{epoch + 1}_2"


@pytest.mark.timeout(1800)
def test_job_killed_at_any_moment_resumes_from_the_newest_complete_checkpoint(
    obs: MemoryObs, tmp_path: Path
) -> None:
    print(run_kills(KilledJob(tmp_path, obs, MODEL_CHECKPOINT), drawn(), KILLS))


@pytest.mark.kill
@pytest.mark.timeout(14400)
def test_a_job_killed_at_100_moments(obs: MemoryObs, tmp_path: Path) -> None:
    print(run_kills(KilledJob(tmp_path, obs, MODEL_CHECKPOINT), drawn(), 100))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A run to which nothing happens; where a rank crashes at its end, the next attempt has nothing left to do."""
    return seeded_faults.run(tmp_path_factory.mktemp("whole"), MODEL_CHECKPOINT, None)[1]


@pytest.mark.parametrize("seed", seeded_faults.seeds(2, 16))
def test_after_seeded_faults_the_losses_are_those_of_an_undisturbed_job(
    tmp_path: Path, undisturbed: Ended, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    seeded_faults.check(tmp_path, MODEL_CHECKPOINT, seed, undisturbed, monkeypatch)
