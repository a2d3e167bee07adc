"""Reader of a node's own events while the file grows; each line is read once."""

from __future__ import annotations

import time
from pathlib import Path

from ma_boot.report.timeline.events import MEASURED, Event, EventFile, read_events
from ma_boot.report.timeline.merge import timeline_of
from ma_boot.report.timeline.time_spent import time_spent


class GrowingEvents:
    """The events of `node` in the file at `path`, without the samples of metrics, which are most of them."""

    def __init__(self, path: Path, node: int) -> None:
        self._path = path
        self._node = node
        self._position = 0
        self._events: list[Event] = []

    def time_spent(self) -> dict[str, float]:
        """Returns the node's seconds until now by their use. Raises `OSError` if the file cannot be read."""
        self._read()
        now = {"kind": "now", "monotonic_ns": time.monotonic_ns(), "node": self._node}
        return time_spent(timeline_of([EventFile((*self._events, now), 0)]))

    def _read(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self._position)
            # A line that is being written is left to the next call.
            lines = file.read().rpartition(b"\n")[0]
        self._position += len(lines) + bool(lines)
        text = lines.decode("utf-8", "replace").split("\n")
        self._events += read_events("\n".join(line for line in text if MEASURED not in line), str).events
