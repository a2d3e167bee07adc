"""A training that trains nothing, for the catalogue of faults: `trivial.py SECONDS`.

It reads its input, leaves a file for its rank, and prints a line every tenth of a second. Standard library
only: it is copied to the nodes.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

INPUT, OUTPUT = "data", "out"
_PAUSE_SECONDS = 0.1


def _train(seconds: float) -> None:
    rank = os.environ.get("RANK_ID", "0")
    size = sum(path.stat().st_size for path in Path(INPUT).glob("*"))
    sys.stdout.write(f"{size} bytes of input\n")
    output = Path(OUTPUT)
    output.mkdir(exist_ok=True)
    (output / f"rank-{rank}").write_text(f"{size}\n")
    until = time.monotonic() + seconds
    step = 0
    while time.monotonic() < until:
        step += 1
        sys.stdout.write(f"step {step}\n")
        sys.stdout.flush()
        time.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    _train(float(sys.argv[1]))  # the platform appends further arguments
