"""Waits for conditions."""

from __future__ import annotations

import time
from typing import Callable

DEADLINE_SECONDS = 60.0


def until(condition: Callable[[], object], seconds: float = DEADLINE_SECONDS) -> None:
    """Returns as soon as the condition holds; an AssertionError when the time is up."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s"
        time.sleep(0.02)
