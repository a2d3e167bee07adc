"""Ranks and nodes of a job that has started, and the way to send signals to their processes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ma_boot.processes.signals import signal_group, signal_process


@dataclass(frozen=True)
class StartedRank:
    """A rank that was started at `started` (seconds on the monotonic clock).

    `lines` counts the lines of its output that were read from `log`.
    """

    pid: int
    started: float
    node: int
    log: Path
    lines: int = 0
    has_ended: bool = False


@dataclass(frozen=True)
class StartedNode:
    """A node that was started, and the phases that it has entered."""

    pid: int
    started: float
    node: int
    phases: frozenset[str] = frozenset()


class NodeProcesses(Protocol):
    """Reaches the processes of nodes; raises `OSError` if a rank or a node cannot be signalled."""

    def exists(self, rank: StartedRank) -> bool:
        """Returns whether a rank without an end event may still run."""

    def signal_rank(self, rank: StartedRank, signum: int, with_children: bool = False) -> None:
        """Sends a signal to a rank, or to its process group."""

    def signal_node(self, node: StartedNode, signum: int) -> None:
        """Sends a signal to a node's ma_boot, if it has not ended."""


class LocalProcesses:
    """Reaches nodes that are processes of this machine."""

    def exists(self, rank: StartedRank) -> bool:
        """Returns whether its process exists: a killed node writes no event of its end."""
        return os.path.exists(f"/proc/{rank.pid}")

    def signal_rank(self, rank: StartedRank, signum: int, with_children: bool = False) -> None:
        """Sends a signal to a rank, or to its process group."""
        if with_children:
            signal_group(rank.pid, signum)
        else:
            os.kill(rank.pid, signum)

    def signal_node(self, node: StartedNode, signum: int) -> None:
        """Sends a signal to a node's ma_boot, if it has not ended."""
        signal_process(node.pid, signum)
