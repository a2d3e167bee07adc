"""A rank of `restart.py`: trains with gloo, saves every fifth step, and raises at one of them.

python restarted.py DIRECTORY FAILS_AT STEPS once|always
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

SAVE_EVERY = 5


def main() -> None:
    directory, fails_at, steps, how = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    dist.init_process_group("gloo")
    rank, saved = dist.get_rank(), directory / "saved"
    first = int(saved.read_text()) if saved.exists() else 0
    attempt = 0
    if rank == 0:
        append(directory / "attempts", str(first))
        attempt = len((directory / "attempts").read_text().splitlines())
    for step in range(first + 1, steps + 1):
        dist.all_reduce(torch.ones(1000))
        time.sleep(0.05)
        if rank == 0:
            append(directory / "steps", f"{attempt} {step} {time.monotonic()}")
            if step % SAVE_EVERY == 0:
                new = directory / "saved.new"
                new.write_text(str(step))
                os.replace(new, saved)
        if rank == 1 and step == fails_at and (how == "always" or not (directory / "failures").exists()):
            append(directory / "failures", str(time.monotonic()))
            raise ValueError(f"bad label in step {step}")


def append(file: Path, line: str) -> None:
    with file.open("a") as out:
        out.write(line + "\n")


if __name__ == "__main__":
    main()
