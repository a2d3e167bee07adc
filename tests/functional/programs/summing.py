"""A training of plain Python whose steps need all ranks, as a collective operation does: its sum tells of any mix-up.

    summing.py STEPS SEED SHARED

The loss of a step depends on the states of all ranks before it. A rank that resumes from another step or another
attempt than the rest gets another sum, or waits for ever.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

PRIME = 2_147_483_647
SAVE_EVERY = 4
STEP_SECONDS = 0.1


def first_state(rank: int, seed: int) -> int:
    """The state of a rank before the first step."""
    return (seed * 7919 + rank * 104_729 + 1) % PRIME


def after(state: int, all_states: Sequence[int], step: int) -> int:
    """The state of a rank after a step."""
    return (state * 31 + sum(all_states) + step) % PRIME


def undisturbed(world: int, steps: int, seed: int) -> int:
    """The sum of all states of a job to which nothing happens."""
    states = [first_state(rank, seed) for rank in range(world)]
    for step in range(1, steps + 1):
        states = [after(state, states, step) for state in states]
    return sum(states)


def exchanged(place: Path, rank: int, world: int, state: int) -> Sequence[int]:
    """The states of all ranks, once all have told theirs."""
    place.mkdir(parents=True, exist_ok=True)
    new = place / f".{rank}"
    new.write_text(str(state))
    new.rename(place / str(rank))
    while not all((place / str(other)).exists() for other in range(world)):
        time.sleep(0.005)
    return [int((place / str(other)).read_text()) for other in range(world)]


def main() -> None:
    steps, seed, shared = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    rank, world = int(os.environ["RANK_ID"]), int(os.environ["RANK_SIZE"])
    attempt = os.environ["MABOOT_ATTEMPT"]
    first = int(os.environ.get("MABOOT_RESTORED_STEP", 0))
    state = int(Path(f"ckpt/iter_{first}/rank_{rank}.bin").read_text()) if first else first_state(rank, seed)
    for step in range(first + 1, steps + 1):
        time.sleep(STEP_SECONDS)
        state = after(state, exchanged(shared / attempt / str(step), rank, world, state), step)
        print(f"step {step} state {state}", flush=True)
        if step % SAVE_EVERY == 0:
            directory = Path(f"ckpt/iter_{step}")
            directory.mkdir(parents=True, exist_ok=True)
            (directory / f"rank_{rank}.bin").write_text(str(state))
    exchanged(shared / attempt / "end", rank, world, state)
    (shared / f"result-{rank}").write_text(str(state))


if __name__ == "__main__":
    main()
