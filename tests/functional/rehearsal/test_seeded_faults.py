"""Seeded faults on rehearsed jobs of 2 to 8 nodes: the sum of the losses equals that of an undisturbed job."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from tests.functional.node import PROGRAMS
from tests.functional.programs.summing import undisturbed
from tests.functional.rehearsal.jobs import (
    AT_ONCE,
    CHECKPOINTS,
    end,
    node_events,
    restarts,
    start,
    with_outputs,
)

STEPS = 40
FIRST = int(os.environ.get("SEED", "0"))


def case(seed: int) -> tuple[int, int, list[str]]:
    """The job of a seed: its nodes, their devices, and its faults.

    The faults are one to three of ranks, some with a store that fails for a while.
    """
    chance = random.Random(seed)
    nodes = chance.choice([2, 2, 3, 4, 8])
    each = 1 if nodes > 3 else 2
    ranks = chance.sample(range(nodes * each), chance.randint(1, min(3, nodes * each)))
    kinds = ["kill", "kill signal=SEGV", "exit code=9"]
    faults = [f"{chance.choice(kinds)} rank={rank} line={chance.randint(1, STEPS // 4)}" for rank in ranks]
    if chance.random() < 0.3:
        faults.append(f"obs-503 method={chance.choice(['PUT', 'GET'])} times={chance.randint(1, 6)}")
    return nodes, each, faults


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "seed", [FIRST + n if n < 4 else pytest.param(FIRST + n, marks=pytest.mark.kill) for n in range(64)]
)
def test_the_sum_of_the_losses_is_that_of_an_undisturbed_job(laptop: Path, seed: int) -> None:
    nodes, each, faults = case(seed)
    world, shared = nodes * each, laptop / "shared"
    shutil.copy(PROGRAMS / "summing.py", laptop / "project")
    options = [word for fault in faults for word in ("--fault", fault)]
    running = start(
        laptop, "--nodes", str(nodes), "--devices-per-node", str(each), "--stop-timeout", "5", *options,
        "--max-restarts", "6", *with_outputs(laptop, ckpt=CHECKPOINTS),
        "project/summing.py", str(STEPS), str(seed), str(shared),
        delay="0", more=AT_ONCE,
    )  # fmt: skip
    ended = end(running, 200)
    assert ended.code == 0, f"{faults}\n{ended.output}"
    assert "are not in OBS" not in ended.output
    states = [int((shared / f"result-{rank}").read_text()) for rank in range(world)]
    assert sum(states) == undisturbed(world, STEPS, seed), f"{faults}\n{ended.output}"
    again = restarts(laptop)
    assert again, f"{faults}\n{ended.output}"
    assert again == sorted(again.count(0) * [*range(nodes)]), "all nodes restart as often"
    restored = [event["step"] for event in node_events(laptop, "restored")]
    assert {restored.count(step) % nodes for step in restored} == {0}, "the same set on all nodes"
