"""The snapshots of a node that wait for their upload."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Callable

from ma_boot.node.checkpoints.disk import Snapshot, free_bytes


class SnapshotQueue:
    """Snapshots. Methods need the publisher's lock; `arrived` wakes its upload thread."""

    def __init__(self, root: Path, say: Callable[[str], None]) -> None:
        self.arrived = threading.Event()
        self._root = root
        self._say = say
        self._waiting: list[Snapshot] = []

    def add(self, snapshots: Sequence[Snapshot]) -> None:
        """Adds snapshots."""
        self._waiting.extend(snapshots)
        if self._waiting:
            self.arrived.set()

    def remove(self, snapshot: Snapshot) -> None:
        """Removes a snapshot and its files."""
        self._waiting.remove(snapshot)
        snapshot.drop()

    def waiting(self) -> list[Snapshot]:
        """Returns the snapshots, the oldest step first."""
        return sorted(self._waiting, key=lambda snapshot: snapshot.taken.step)

    def give_up(self, is_superfluous: Callable[[int], bool]) -> None:
        """Removes superfluous steps, and the oldest ones while the disk is nearly full.

        The disk needs room for one more step of the training, and for its snapshot.
        """
        for snapshot in self.waiting():
            if is_superfluous(snapshot.taken.step.number):
                self.remove(snapshot)
        while len(self._waiting) > 1:
            waiting = self.waiting()
            oldest, newest = waiting[0], waiting[-1]
            if oldest.in_place or free_bytes(self._root) > 2 * newest.size:
                return
            self._say(
                f"checkpoint step {oldest.taken.step.name}: given up before it was uploaded, as the disk of "
                f"{self._root} is nearly full"
            )
            self.remove(oldest)
