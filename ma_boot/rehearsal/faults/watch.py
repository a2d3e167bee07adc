"""What a start of the rehearsed job does, as its own records show it: nodes, phases, ranks, lines."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Optional, Set

from ma_boot.rehearsal.platform.event_lines import events_in

_READ_BYTES = 1 << 20


@dataclass
class RankSeen:
    """A rank that was started, at `started` seconds of the monotonic clock."""

    pid: int
    started: float
    lines: Lines
    ended: bool = False


@dataclass
class NodeSeen:
    """A node that was started, and the phases that it has come to."""

    pid: int
    started: float
    phases: Set[str] = field(default_factory=set)


class Lines:
    """Counts the lines of a growing file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._count = 0

    def count(self) -> int:
        """The lines that are complete by now."""
        try:
            with self._path.open("rb", buffering=0) as file:
                file.seek(self._offset)
                data = file.read(_READ_BYTES)
        except OSError:  # not there yet
            return self._count
        self._offset += len(data)
        self._count += data.count(b"\n")
        return self._count


class Tail:
    """The events that come into a file from now on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0
        self._rest = b""

    def events(self) -> List[Dict[str, Any]]:
        """Those that are new and complete."""
        try:
            with self._path.open("rb", buffering=0) as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:  # not there yet, or no more
            return []
        self._offset += len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        return list(events_in(whole))


class Watch:
    """One start of the job, of `size` nodes: `look` reads what is new in the events of both."""

    def __init__(self, own_events: Path, node_events: Dict[int, Path]) -> None:
        """Make it before the start: what is in the files already belongs to an earlier one.

        A node's logs lie beside its events; by which path the node itself knows them says nothing here.
        """
        self.nodes: Dict[int, NodeSeen] = {}
        self.ranks: Dict[int, RankSeen] = {}
        self.size = len(node_events)
        self._own = Tail(own_events)
        self._logs = {node: path.parent for node, path in node_events.items()}
        self._tails = {node: Tail(path) for node, path in node_events.items()}

    def look(self) -> None:
        """Reads on."""
        for event in self._own.events():
            if event["kind"] == "start":
                node = int(event["label"].split()[1])
                self.nodes[node] = NodeSeen(event["pid"], event["monotonic_ns"] / 1e9)
        for node, tail in self._tails.items():
            for event in tail.events():
                self._take(node, event)

    def running(self, rank: int) -> Optional[RankSeen]:
        """The rank, while it is known to run."""
        found = self.ranks.get(rank)
        return (
            found if found is not None and not found.ended and os.path.exists(f"/proc/{found.pid}") else None
        )

    def _take(self, node: int, event: Dict[str, Any]) -> None:
        rank = event.get("rank")
        if event["kind"] == "phase-start" and node in self.nodes:
            self.nodes[node].phases.add(event["phase"])
        elif event["kind"] == "start" and rank is not None:
            log = self._logs[node] / os.path.basename(event["log_file"])
            self.ranks[rank] = RankSeen(event["pid"], event["monotonic_ns"] / 1e9, Lines(log))
        elif event["kind"] == "exit" and rank in self.ranks:
            self.ranks[rank].ended = True
