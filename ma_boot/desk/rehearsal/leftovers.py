"""Processes that outlive the nodes which have started them: found, named and killed."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Callable

from ma_boot.processes.children import reap_orphans
from ma_boot.processes.control_group import file_text
from ma_boot.processes.orphan_guard import descendants
from ma_boot.processes.signals import signal_process
from ma_boot.wording import counted, list_first

_POLL_SECONDS = 0.01
# Seconds until a process counts as left over; the guard of a lost node needs only milliseconds.
_PATIENCE_SECONDS = 10.0
_MOST_NAMED = 5


class Leftovers:
    """Descendants of this process that were started after this object was made; `pids` were left over.

    Orphans of the nodes are adopted by this process, with any environment and session.
    """

    def __init__(self) -> None:
        self.pids: list[int] = []
        # A shell that `exec` has replaced by this program may have left children.
        self._older = set(descendants(os.getpid(), {}))

    def kill(self, say: Callable[[str], None]) -> None:
        """Waits until the nodes' processes have ended; reports and kills those that remain."""
        left = self._left_after(_PATIENCE_SECONDS)
        if not left:
            return
        named = list_first([f"{pid} ({_program(pid)})" for pid in left], _MOST_NAMED)
        count = counted(len(left), "process", "processes")
        say(f"{count} outlived the nodes and {'is' if len(left) == 1 else 'are'} killed: {named}")
        self.pids += left
        until = time.monotonic() + _PATIENCE_SECONDS
        # Repeatedly: a process may start another one before it is killed.
        while left and time.monotonic() < until:
            for pid in left:
                signal_process(pid, signal.SIGKILL)
            left = self._left_after(_POLL_SECONDS)

    def _left_after(self, seconds: float) -> list[int]:
        """Returns the processes that still run after some seconds; returns early when all have ended."""
        until = time.monotonic() + seconds
        while True:
            reap_orphans([])
            left = sorted(set(descendants(os.getpid(), {})) - self._older)
            if not left or time.monotonic() > until:
                return left
            time.sleep(_POLL_SECONDS)


def _program(pid: int) -> str:
    """The name of a process's program."""
    return file_text(Path(f"/proc/{pid}/comm")).strip() or "ended"
