"""Health of a node between two attempts: defects of its devices and disks, and the release of its devices."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Callable

from ma_boot.node.boot.process_context import ProcessContext
from ma_boot.node.observe.metrics.card_tables import NpuState
from ma_boot.node.observe.metrics.cards import CardTools
from ma_boot.processes.task import Task
from ma_boot.wording import Message

NPU = Path("/dev/davinci_manager")
# Seconds; the driver releases an NPU some time after the process that used it has ended.
RELEASE_SECONDS = 15.0
# Seconds; max. wait where npu-smi shows the processes that use an NPU.
FREE_SECONDS = 30.0
# Seconds between two calls of npu-smi.
_BETWEEN_LOOKS = 1.0
# States of npu-smi's OK, Warning, Alarm and Critical in which a device is taken for broken.
BROKEN = ("Alarm", "Critical")
# Bytes; a disk with less free space counts as full.
LEAST_FREE = 1 << 20


def wait_for_cards(context: ProcessContext, check: Callable[[], None]) -> None:
    """Waits until no process uses an NPU any more, for at most half a minute; raises the errors of `check`.

    Where npu-smi does not show the processes, waits for the time that the driver needs.
    """
    began = time.monotonic()
    while True:
        state = _npus(context, check)
        if state is None and not NPU.exists():
            return
        seconds = FREE_SECONDS if state is not None and state.processes is not None else RELEASE_SECONDS
        left = began + seconds - time.monotonic()
        if left <= 0 or (state is not None and state.processes == 0):
            return
        _sleep(context, min(left, _BETWEEN_LOOKS) if state is not None else left, check)


def _sleep(context: ProcessContext, seconds: float, check: Callable[[], None]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        check()
        context.inbox.wait(until - time.monotonic())
    check()


def find_defect(context: ProcessContext, cards: int, directories: Iterable[str]) -> str:
    """Returns a defect of this node with which no further attempt can succeed; empty if none is known.

    Its processes use `cards` devices, and write to the `directories`. Raises `Stopped`.
    """
    problems = [*broken_cards(_npus(context, context.inbox.check), cards), *_full_disks(directories)]
    return problems[0] if problems else ""


def broken_cards(state: NpuState | None, cards: int) -> Iterator[str]:
    """Yields the devices that npu-smi shows as broken, and the number of missing ones. Pure."""
    if state is None or not state.rows:
        return
    for row in state.rows:
        if row.sample.health in BROKEN:
            yield Message.of("NPU {} is {} (npu-smi)", row.physical, row.sample.health)
    if len(state.rows) < cards:
        yield Message.of("npu-smi shows {} of {} NPUs", len(state.rows), cards)


def _full_disks(directories: Iterable[str]) -> Iterator[str]:
    for directory in directories:
        with suppress(OSError):
            if shutil.disk_usage(directory).free < LEAST_FREE:
                yield Message.of("the disk of {} is full", directory)


def _npus(context: ProcessContext, check: Callable[[], None]) -> NpuState | None:
    """Returns the state by npu-smi; None if it is missing or fails. Raises the errors of `check`."""

    def query(cancel: threading.Event) -> NpuState | None:
        return CardTools(context.environ).read_npus(cancel)

    task = Task("npu-smi", query, context.inbox)
    try:
        task.wait(check)
    finally:
        task.cancel()
    return task.result()
