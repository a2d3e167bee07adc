"""Use of a node's time so far, from its own events while their file grows."""

from __future__ import annotations

import time
from pathlib import Path

from ma_boot.report.growing_file import GrowingFile
from ma_boot.report.timeline.events import MEASURED, Event, EventFile, read_events
from ma_boot.report.timeline.merge import timeline_of
from ma_boot.report.timeline.time_spent import time_spent


class GrowingEvents:
    """The events of `node` in the file at `path`, without the samples of metrics, which are most of them."""

    def __init__(self, path: Path, node: int) -> None:
        self._file = GrowingFile(path)
        self._node = node
        self._events: list[Event] = []

    def time_spent(self) -> dict[str, float]:
        """Returns the node's seconds until now by their use."""
        lines = (line for line in self._file.new_lines() if MEASURED not in line)
        self._events += read_events("\n".join(lines), str).events
        now = {"kind": "now", "monotonic_ns": time.monotonic_ns(), "node": self._node}
        return time_spent(timeline_of([EventFile((*self._events, now), 0)]))
