"""The example, trained for real: MindSpore, four processes on two simulated nodes, from OBS and back."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Dict, List

import pytest

from tests.functional.node import Ended
from tests.mindspore_end import again_after_a_crash

ROOT = Path(__file__).parents[3]
OBS = ROOT / ".rehearsal" / "obs" / "ma-boot-example"

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


def losses(output: str, rank: int) -> List[float]:
    return [float(loss) for loss in re.findall(rf"\[rank {rank}\] epoch: .*, loss is ([0-9.]+)", output)]


@pytest.fixture(scope="module")
def trained() -> Ended:
    shutil.rmtree(OBS / "checkpoints", ignore_errors=True)
    return make("rehearse")


def checkpoints() -> Dict[str, bytes]:
    return {str(path.relative_to(OBS)): path.read_bytes() for path in sorted(OBS.glob("checkpoints/*/*"))}


def test_it_trains_and_every_rank_ends_well(trained: Ended) -> None:
    assert trained.code == 0, trained.output
    assert trained.output.count("parameters equal on all 4 ranks") == 4


def test_the_loss_falls_on_every_rank(trained: Ended) -> None:
    for rank in range(4):
        seen = losses(trained.output, rank)
        assert seen[0] > 2
        assert seen[-1] < 0.5


def test_obs_holds_a_checkpoint_of_each_rank(trained: Ended) -> None:
    assert list(checkpoints()) == [f"checkpoints/rank_{rank}/latest.ckpt" for rank in range(4)]


def test_a_second_run_resumes(trained: Ended) -> None:
    before = checkpoints()
    resumed = make("resume")
    assert resumed.code == 0, resumed.output
    assert resumed.output.count("resumed from epoch 2") == 4
    assert losses(resumed.output, 0)[0] < 0.5
    assert all(content != before[name] for name, content in checkpoints().items())
