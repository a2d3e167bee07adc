"""Health of a node between two attempts: defects of its devices and disks, and the release of its devices."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Callable

from ma_boot.node.boot.process_context import ProcessContext
from ma_boot.node.observe.metrics.card_tables import NpuState
from ma_boot.node.observe.metrics.cards import CardTools
from ma_boot.processes.task import Task
from ma_boot.wording import Message

if TYPE_CHECKING:
    from ma_boot.node.observe.metrics.gpus import GpuReading

# The modules of GPUs are imported between two attempts: a start needs none of them.

NPU = Path("/dev/davinci_manager")
# Seconds; the driver releases an NPU some time after the process that used it has ended.
RELEASE_SECONDS = 15.0
# Seconds; max. wait where npu-smi shows the processes that use an NPU.
FREE_SECONDS = 30.0
# Seconds; max. wait for the memory of GPUs: the driver frees it after the processes that used it have ended.
MEMORY_SECONDS = 50.0
# Seconds between two readings of the cards.
_BETWEEN_LOOKS = 1.0
# States of npu-smi's OK, Warning, Alarm and Critical in which a device is taken for broken.
BROKEN = ("Alarm", "Critical")
# Bytes; a disk with less free space counts as full.
LEAST_FREE = 1 << 20


def wait_for_cards(context: ProcessContext, check: Callable[[], None]) -> None:
    """Waits until no process uses a card any more, for a limited time; raises the errors of `check`.

    Where npu-smi does not show the processes, waits for the time that the driver needs.
    """
    from ma_boot.node.observe.metrics.nvml import can_read

    began = time.monotonic()
    if can_read():
        _wait_for_memory(context, began + MEMORY_SECONDS, check)
        return
    while True:
        state = _npus(context, check)
        if state is None and not NPU.exists():
            return
        seconds = FREE_SECONDS if state is not None and state.processes is not None else RELEASE_SECONDS
        left = began + seconds - time.monotonic()
        if left <= 0 or (state is not None and state.processes == 0):
            return
        _sleep(context, min(left, _BETWEEN_LOOKS) if state is not None else left, check)


def _wait_for_memory(context: ProcessContext, until: float, check: Callable[[], None]) -> None:
    """Waits until the memory of all GPUs is free; warns if some is not by then."""
    from ma_boot.node.observe.metrics.nvml import read_within

    while True:
        reading = read_within(check)
        used = [gpu for gpu in reading.gpus if not gpu.is_free] if reading is not None else []
        left = until - time.monotonic()
        if not used:
            return
        if left <= 0:
            cards = ", ".join(str(gpu.card) for gpu in used)
            text = "memory of GPU {} is still in use after {} s: the next attempt may lack it"
            context.journal.warn(Message.of(text, cards, f"{MEMORY_SECONDS:.0f}"))
            return
        _sleep(context, min(left, _BETWEEN_LOOKS), check)


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
    from ma_boot.node.observe.metrics.nvml import can_read, read_within

    check = context.inbox.check
    if can_read():
        of_cards = list(broken_gpus(read_within(check), cards))
    else:
        of_cards = list(broken_cards(_npus(context, check), cards))
    problems = [*of_cards, *_full_disks(directories)]
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


def broken_gpus(reading: GpuReading | None, cards: int) -> Iterator[str]:
    """Yields the defects of GPUs, and the number of missing ones. Pure."""
    from ma_boot.node.observe.metrics.gpus import defects

    if reading is None:
        return
    for gpu in reading.gpus:
        yield from defects(gpu)
    if len(reading.gpus) < cards:
        yield Message.of("the driver shows {} of {} GPUs", len(reading.gpus), cards)


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
