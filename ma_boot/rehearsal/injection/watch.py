"""Follows one start of the rehearsed job by its event files: nodes, phases, ranks, lines of output."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, Optional, Set, Tuple

from ma_boot.reporting.timeline import Event, read_events

_READ_BYTES = 1 << 20


@dataclass
class StartedRank:
    """A rank that was started at `started` (seconds on the monotonic clock)."""

    pid: int
    started: float
    lines: GrowingFile
    ended: bool = False


@dataclass
class StartedNode:
    """A node that was started, and the phases that it has entered."""

    pid: int
    started: float
    phases: Set[str] = field(default_factory=set)


class GrowingFile:
    """A file that another process appends to."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self._path = path
        self._offset = offset
        self._rest = b""
        self._lines = 0

    def count_lines(self) -> int:
        """The number of complete lines so far."""
        self._lines += self._new_bytes().count(b"\n")
        return self._lines

    def new_events(self) -> Tuple[Event, ...]:
        """The events that were completed since the last call."""
        *lines, self._rest = (self._rest + self._new_bytes()).split(b"\n")
        return read_events(b"\n".join(lines).decode("utf-8", "replace"), str).events

    def _new_bytes(self) -> bytes:
        try:
            with self._path.open("rb", buffering=0) as file:
                file.seek(self._offset)
                data = file.read(_READ_BYTES)
        except OSError:  # it does not exist yet, or no longer
            return b""
        self._offset += len(data)
        return data


class Watch:
    """One start of a job of `size` nodes; `poll` reads the new events of the rehearsal and its nodes."""

    def __init__(self, own_events: Path, node_events: Dict[int, Path]) -> None:
        """Create it before the start: events already in the files belong to an earlier start.

        The logs of a node are looked for next to its events: a sandboxed node knows them by another path.
        """
        self.nodes: Dict[int, StartedNode] = {}
        self.ranks: Dict[int, StartedRank] = {}
        self.size = len(node_events)
        self._own = _appended(own_events)
        self._logs = {node: path.parent for node, path in node_events.items()}
        self._tails = {node: _appended(path) for node, path in node_events.items()}

    def poll(self) -> None:
        """Reads the new events."""
        for event in self._own.new_events():
            if event["kind"] == "start":
                node = int(event["label"].split()[1])
                self.nodes[node] = StartedNode(event["pid"], event["monotonic_ns"] / 1e9)
        for node, tail in self._tails.items():
            for event in tail.new_events():
                self._take(node, event)

    def running(self, rank: int) -> Optional[StartedRank]:
        """The rank, if it is running."""
        found = self.ranks.get(rank)
        return (
            found if found is not None and not found.ended and os.path.exists(f"/proc/{found.pid}") else None
        )

    def _take(self, node: int, event: Event) -> None:
        rank = event.get("rank")
        if event["kind"] == "phase-start" and node in self.nodes:
            self.nodes[node].phases.add(event["phase"])
        elif event["kind"] == "start" and rank is not None:
            log = self._logs[node] / os.path.basename(event["log_file"])
            self.ranks[rank] = StartedRank(event["pid"], event["monotonic_ns"] / 1e9, GrowingFile(log))
        elif event["kind"] == "exit" and rank in self.ranks:
            self.ranks[rank].ended = True


def _appended(path: Path) -> GrowingFile:
    """What is appended to a file from now on."""
    return GrowingFile(path, path.stat().st_size if path.exists() else 0)
