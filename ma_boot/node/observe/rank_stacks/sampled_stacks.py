"""Stacks of ranks that may be at work: taken several times, together with other signs of progress."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from ma_boot.node.observe.quiet_life import DataSample, moved_by
from ma_boot.node.observe.rank_stacks.rank_processes import RankProcess
from ma_boot.node.observe.rank_stacks.stack_samples import MOVES, UNKNOWN, compare_samples
from ma_boot.node.observe.rank_stacks.stack_tools import stacks_of
from ma_boot.processes.cpu_meter import IDLE_SHARE, ProcessUsage, process_usages
from ma_boot.processes.orphan_guard import below, children_of
from ma_boot.processes.sockets import socket_bytes

# Samples of a look, the first one included.
SAMPLES = 3
# Seconds of a look.
LOOK_SECONDS = 10.0
SHORTEST_LOOK = 1.0


class _Signs(NamedTuple):
    """Data that a rank's processes have moved so far, and the CPU seconds of its children."""

    data: DataSample
    cpu: float


def look_seconds(timeout: float) -> float:
    """Seconds of a look with this timeout for hangs."""
    return min(LOOK_SECONDS, max(SHORTEST_LOOK, timeout / 2))


def sample_again(
    processes: Sequence[RankProcess], first: Sequence[str], seconds: float, cancel: threading.Event
) -> list[str]:
    """Returns the progress of processes since their `first` stacks; takes about `seconds`.

    A process that moves is not stopped for another sample.
    """
    began, before = time.monotonic(), _signs_of(processes)
    samples = [[text] for text in first]
    progress = [UNKNOWN] * len(processes)
    for number in range(1, SAMPLES):
        cancel.wait(max(0.0, began + seconds * number / (SAMPLES - 1) - time.monotonic()))
        asked = [at for at, found in enumerate(progress) if found != MOVES]
        for at, text in zip(asked, stacks_of([processes[at] for at in asked])):
            samples[at].append(text)
            progress[at] = compare_samples(samples[at])
    after = _signs_of(processes)
    return [
        MOVES if _has_worked(earlier, later) else found
        for found, earlier, later in zip(progress, before, after)
    ]


def _has_worked(before: _Signs, after: _Signs) -> bool:
    seconds = after.data.when - before.data.when
    return after.data.shows_life_since(before.data) or after.cpu - before.cpu > IDLE_SHARE * seconds


def _signs_of(processes: Sequence[RankProcess]) -> list[_Signs]:
    now, usages, of_sockets = time.monotonic(), process_usages(), socket_bytes()
    children = children_of((pid, usage.parent) for pid, usage in usages.items())
    signs = []
    for process in processes:
        members = below([process.pid], children)
        cpu = sum(usages[pid].cpu for pid in members) + _reaped(usages.get(process.pid))
        signs.append(_Signs(DataSample(now, moved_by([process.pid, *members], of_sockets), {}), cpu))
    return signs


def _reaped(usage: ProcessUsage | None) -> float:
    return usage.of_reaped if usage is not None else 0.0
