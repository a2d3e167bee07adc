"""The example, trained for real: MindSpore, four processes on two simulated nodes, from OBS and back."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.functional.frameworks.checkpoint_jobs import complete_checkpoints, damage_in
from tests.functional.node import Ended
from tests.mindspore_end import again_after_a_crash

ROOT = Path(__file__).parents[3]
STORE = ROOT / ".rehearsal" / "obs" / "ma-boot-example" / "checkpoints"

pytestmark = [pytest.mark.mindspore, pytest.mark.timeout(400)]


def make(target: str) -> Ended:
    """Runs `make TARGET` as a newcomer does."""

    def run() -> Ended:
        done = subprocess.run(
            ["make", target], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        output = done.stdout.decode("utf-8", "replace")
        codes = re.findall(r"^\[ma_boot\] exit code (\d+):", output, re.MULTILINE)  # make's own is always 2
        return Ended(int(codes[-1]) if codes else done.returncode, output)

    return again_after_a_crash(run, "parameters equal on all 4 ranks")


def losses(output: str, rank: int) -> list[float]:
    return [float(loss) for loss in re.findall(rf"\[rank {rank}\] epoch: .*, loss is ([0-9.]+)", output)]


@pytest.fixture(scope="module")
def trained() -> Ended:
    return make("rehearse")


def test_it_trains_and_every_rank_ends_well(trained: Ended) -> None:
    assert trained.code == 0, trained.output
    assert trained.output.count("parameters equal on all 4 ranks") == 4


def test_the_loss_falls_on_every_rank(trained: Ended) -> None:
    for rank in range(4):
        first, *_, last = losses(trained.output, rank)
        assert first > 2
        assert last < 0.5


def test_obs_has_a_complete_checkpoint_of_each_epoch(trained: Ended) -> None:
    """With the checkpoint of each rank; of the first epoch, too, as it is seen while the second one trains."""
    newest, *older = complete_checkpoints(STORE)
    assert newest["step"] == "2_20"
    assert [known["step"] for known in older] in ([], ["1_20"])
    assert sorted(newest["files"]) == [f"rank_{rank}/cnn-2_20.ckpt" for rank in range(4)]
    assert {damage_in("a-1_1.ckpt", file.read_bytes()) for file in newest["files"].values()} == {""}


def test_a_cut_checkpoint_is_found_by_its_format(trained: Ended) -> None:
    """All of the cuts but those where a parameter ends: MindSpore's format has no end of its own."""
    content = next(iter(complete_checkpoints(STORE)[0]["files"].values())).read_bytes()
    unseen = [
        length for length in range(1, len(content), 997) if not damage_in("a-1_1.ckpt", content[:length])
    ]
    assert len(unseen) <= 1


def test_a_second_run_resumes(trained: Ended) -> None:
    resumed = make("resume")
    assert resumed.code == 0, resumed.output
    assert resumed.output.count("resumed from epoch 2") == 4
    assert "; resumed from step 2_20" in resumed.output
    assert losses(resumed.output, 0)[0] < 0.5
    assert complete_checkpoints(STORE)[0]["step"] == "4_20"
    assert len(complete_checkpoints(STORE)) <= 4, "three, and the one that was restored"
