"""Jobs killed at any moment: the next start resumes from the newest complete checkpoint in the store."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.fault.checkpoint_kills import KilledJob, Training, run_kills
from tests.fault.seeds import drawn
from tests.functional.node import PROGRAMS
from tests.functional.programs.saver import content
from tests.obs import MemoryObs

KILLS = 4  # `make test-kill` has 200


def numbers(path: str) -> list[int]:
    """The step, the rank and the number of a file."""
    return [int(number) for number in re.findall(r"\d+", path)]


SAVER = Training(
    ["--python", sys.executable],
    [str(PROGRAMS / "saver.py"), "checkpoints", "{shared}", "100000"],
    "iter_{step}/rank_{rank}_*.bin",
    rank_of=lambda path: numbers(path)[1],
    content=lambda path: content(*numbers(path)).encode(),
)


@pytest.mark.invariant("A start resumes from the newest complete checkpoint, after a kill at any moment")
@pytest.mark.timeout(600)
def test_killed_job_resumes_from_the_newest_complete_checkpoint(obs: MemoryObs, tmp_path: Path) -> None:
    run_kills(KilledJob(tmp_path, obs, SAVER), drawn(), KILLS)


@pytest.mark.invariant(
    "A training resumes only from a complete checkpoint, on all nodes, after a kill at any moment"
)
@pytest.mark.kill
@pytest.mark.timeout(7200)
def test_job_killed_at_200_moments_resumes_each_time(obs: MemoryObs, tmp_path: Path) -> None:
    run_kills(KilledJob(tmp_path, obs, SAVER), drawn(), 200)
