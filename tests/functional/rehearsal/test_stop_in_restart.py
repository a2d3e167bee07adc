"""SIGTERM at any moment of a restart: all stop, the outputs go home, the job ends with 143."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from tests.functional.node import eventually
from tests.functional.rehearsal.jobs import (
    AT_ONCE,
    CHECKPOINTS,
    HEAD,
    SHAPE,
    end,
    node_events,
    processes,
    start,
    with_outputs,
    write,
)

MOMENTS = ["exit", "stop", "verdict", "restart", "restored"]  # events, of which the last comes a second time
TRAINING = [
    *HEAD,
    "from pathlib import Path",
    "Path('out').mkdir(exist_ok=True)",
    "Path(f'out/note-{rank}').write_text('kept')",
    "Path('ckpt/iter_10').mkdir(parents=True, exist_ok=True)",
    "Path(f'ckpt/iter_10/rank_{rank}.bin').write_text('10')",
    "time.sleep(1)",
    "if rank == 3 and attempt == 1: raise ValueError('bad label 91')",
    "time.sleep(600)",
]


@pytest.mark.parametrize("seed", [n if n < 4 else pytest.param(n, marks=pytest.mark.kill) for n in range(10)])
def test_a_stop_at_any_moment_of_a_restart_ends_the_job(laptop: Path, seed: int) -> None:
    chance = random.Random(seed)
    moment, delay = MOMENTS[seed % len(MOMENTS)], chance.uniform(0, 0.6)
    options = [*with_outputs(laptop, ckpt=CHECKPOINTS, out="obs://bucket/out"), "--max-restarts", "1"]
    running = start(laptop, *SHAPE, *options, write(laptop, *TRAINING), more=AT_ONCE)
    count = 3 if moment == "restored" else 1
    eventually(lambda: len(node_events(laptop, moment)) >= count, f"{moment} is seen")
    time.sleep(delay)
    running.terminate()
    ended = end(running)
    assert ended.code == 128 + signal.SIGTERM, f"{moment} + {delay:.2f} s\n{ended.output}"
    assert processes(laptop) == []
    notes = sorted(file.name for file in (laptop / "obs" / "bucket" / "out").iterdir())
    assert notes == [f"note-{rank}" for rank in range(4)], ended.output
