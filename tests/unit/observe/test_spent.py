"""The events of a file that somebody is writing."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from ma_boot.node.observe.metrics.spent import GrowingEvents
from ma_boot.report.timeline.time_spent import COUNTED, LOST, OPEN, START


def line(seconds: float, kind: str, **fields: Any) -> str:
    """An event so many seconds from now."""
    at = {"time": time.time() + seconds, "monotonic_ns": time.monotonic_ns() + int(seconds * 1e9)}
    return json.dumps({**at, "kind": kind, "node": 3, **fields}) + "\n"


def test_a_growing_file_is_read_on_even_from_within_a_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    growing = GrowingEvents(path, 3)
    path.write_text(line(-100, "job") + line(-90, "start", label="rank 0", rank=0) + line(-1, "metrics"))
    spent = growing.time_spent()
    assert (round(spent[START]), round(spent[OPEN]), spent[COUNTED]) == (10, 90, 0)
    ended = line(-40, "exit", label="rank 0", code=1)
    with path.open("a") as file:
        file.write(ended[:30])
    assert round(growing.time_spent()[OPEN]) == 90
    with path.open("a") as file:
        file.write(ended[30:] + line(-30, "start", label="rank 0", rank=0))
    spent = growing.time_spent()
    assert (round(spent[LOST]), round(spent[OPEN]), round(sum(spent.values()))) == (50, 30, 100)
