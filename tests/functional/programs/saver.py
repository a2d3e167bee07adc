"""A training of several ranks that only saves: in place, piece by piece, and in step with the other ranks.

saver.py CHECKPOINTS SHARED LAST: SHARED is what the ranks of all nodes see, in place of a network.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path


def main(checkpoints: Path, shared: Path, last: int) -> None:
    """Says what was restored, then saves steps until the last one."""
    rank, world = int(os.environ["RANK_ID"]), int(os.environ["RANK_SIZE"])
    restored = os.environ.get("MABOOT_RESTORED_STEP")
    files = {str(path.relative_to(checkpoints)): digest(path) for path in checkpoints.rglob("iter_*/*")}
    say("restored", rank=rank, step=restored, files=files)
    (shared / f"began_{rank}").touch()
    together(shared, "began", world)
    for step in range(int(restored or 0) + 1, last + 1):
        time.sleep(0.05)
        for number in range(2):
            save(checkpoints / f"iter_{step}" / f"rank_{rank}_{number}.bin", content(step, rank, number))
        say("saved", rank=rank, step=str(step), weights=f"those of {step}")
        (shared / f"saved_{step}_{rank}").touch()
        together(shared, f"saved_{step}", world)


def say(what: str, **facts: object) -> None:
    """One write: processes share their output."""
    sys.stdout.write(f"{what} {json.dumps({'pid': os.getpid(), **facts})}\n")
    sys.stdout.flush()


def digest(path: Path) -> str:
    """The digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def together(shared: Path, what: str, world: int) -> None:
    """Waits for all ranks, as a collective operation does."""
    while not all((shared / f"{what}_{rank}").exists() for rank in range(world)):
        time.sleep(0.01)


def content(step: int, rank: int, number: int) -> str:
    """What a file has; its length tells nothing."""
    return f"{step:06} {rank:03} {number} " * 4000


def save(path: Path, text: str) -> None:
    """Writes a file in place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for start in range(0, len(text), 20_000):
            file.write(text[start : start + 20_000])
            file.flush()
            time.sleep(0.01)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
