"""Processes that an earlier start in the same container left behind."""

from __future__ import annotations

import signal
import time
from typing import Callable, Sequence

from ma_boot.processes import orphan_guard
from ma_boot.processes.children import signal_process
from ma_boot.processes.signals import SignalInbox

LOOK_SECONDS = 0.02  # between two looks: they are not our children
MOST_NAMED = 5


def end_left_over(
    container: str,
    stop_timeout: float,
    inbox: SignalInbox,
    say: Callable[[str], None],
    event: Callable[..., None],
) -> None:
    """Ends the processes of an earlier start in this container whose ma_boot is gone: SIGTERM, then SIGKILL.

    They hold devices and ports that this start needs. Raises `Stopped` at a stop signal.
    """
    found = orphan_guard.left_over(container)
    if not found:
        return
    say(f"stopping {len(found)} processes that an earlier start left: {_numbers(found)}")
    event("left-over", pids=found)
    deadline = time.monotonic() + stop_timeout
    for pid in found:
        signal_process(pid, signal.SIGTERM)
    while orphan_guard.left_over(container) and time.monotonic() < deadline:
        inbox.check()
        inbox.wait(LOOK_SECONDS)
    for pid in orphan_guard.left_over(container):
        signal_process(pid, signal.SIGKILL)


def _numbers(pids: Sequence[int]) -> str:
    shown = ", ".join(map(str, pids[:MOST_NAMED]))
    return shown + (", ..." if len(pids) > MOST_NAMED else "")
