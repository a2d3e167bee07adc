"""Processes that an earlier start in the same container left behind."""

from __future__ import annotations

import signal
import time
from typing import Sequence

from ma_boot.modelarts.job import instance_name
from ma_boot.node.world import World
from ma_boot.processes import orphan_guard
from ma_boot.processes.children import signal_process

LOOK_SECONDS = 0.02  # between two looks: they are not our children
MOST_NAMED = 5


def end_left_over(world: World, stop_timeout: float) -> None:
    """Ends the processes of an earlier start in this container whose ma_boot is gone: SIGTERM, then SIGKILL.

    They hold devices and ports that this start needs.
    """
    container = instance_name(world.environ)
    found = orphan_guard.left_over(container)
    if not found:
        return
    world.journal.say(f"stopping {len(found)} processes that an earlier start left: {_numbers(found)}")
    world.journal.event("left-over", pids=found)
    deadline = time.monotonic() + stop_timeout
    for pid in found:
        signal_process(pid, signal.SIGTERM)
    while orphan_guard.left_over(container) and time.monotonic() < deadline:
        world.inbox.check()
        world.inbox.wait(LOOK_SECONDS)
    for pid in orphan_guard.left_over(container):
        signal_process(pid, signal.SIGKILL)


def _numbers(pids: Sequence[int]) -> str:
    shown = ", ".join(map(str, pids[:MOST_NAMED]))
    return shown + (", ..." if len(pids) > MOST_NAMED else "")
