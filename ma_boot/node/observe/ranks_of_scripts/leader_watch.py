"""Observer of the end of node 0, for the commands of the other nodes that only work for it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from ma_boot.node.observe.peers import Peers
from ma_boot.node.supervisor.worker_group import Worker, start_command
from ma_boot.report.journal import Journal
from ma_boot.wording import Message

# Seconds after the end of node 0 in which its peers end, too, if they are no servers.
LEADER_SECONDS = 10.0


class LeaderWatch:
    """Stops a command that holds workers of Ray once node 0 has ended; reports the wait for any other.

    `is_released` is true once a command was stopped because node 0 had ended with 0.
    """

    without = "the end of node 0 is not noticed"

    def __init__(self, peers: Peers, journal: Journal) -> None:
        self.is_released = False
        self._peers = peers
        self._journal = journal
        # Time at which the wait is reported; infinity before the end of node 0, and once it was reported.
        self._due = math.inf
        self._is_noticed = False

    def patience(self) -> float:
        """Seconds until the wait is reported; the end of node 0 wakes the inbox."""
        return max(0.0, self._due - time.monotonic())

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Returns the reason to stop the command once node 0 has ended, mostly empty.

        A command without Ray may have work of its own, so its wait is only reported, after some time: nodes
        of one job seldom end at the same moment.
        """
        command, code = start_command(workers), self._peers.leader_exit
        if command is None or stopping:
            return ""
        # A command that has only started Ray's daemons holds them until node 0 needs them no longer.
        has_leader = bool(self._peers.node and self._peers.others)
        command.is_held = command.spec.starts_ray and code is None and has_leader
        if code is None or command.exit is not None:
            return ""
        if command.spec.starts_ray:
            self.is_released = code == 0
            text = "node 0 has ended with {}, and the command of this node held workers for it"
            return Message.of(text, code)
        if code == 0:
            self._report_wait()
        return ""

    def _report_wait(self) -> None:
        now = time.monotonic()
        if not self._is_noticed:
            self._is_noticed, self._due = True, now + LEADER_SECONDS
        if now >= self._due:
            self._due = math.inf
            text = "node 0 has ended with 0; still waiting for the command of this node to end"
            self._journal.warn(Message.of(text))

    def close(self) -> None:
        """Does nothing: it holds no resource."""
