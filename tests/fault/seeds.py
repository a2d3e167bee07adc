"""Random numbers whose seed is printed."""

from __future__ import annotations

import os
import random


def drawn() -> random.Random:
    """Returns the random numbers of a run, by a new seed or by SEED; prints the seed for failures."""
    seed = int(os.environ.get("SEED") or random.randrange(1 << 31))
    print(f"SEED={seed}")
    return random.Random(seed)
