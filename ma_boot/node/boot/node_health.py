"""A node between two attempts: whether its cards and disks are in order, and when its cards are free."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Callable

from ma_boot.node.boot.process_context import ProcessContext
from ma_boot.node.observe.cards import CardTools, NpuState
from ma_boot.processes.task import Task
from ma_boot.wording import Message

NPU = Path("/dev/davinci_manager")
RELEASE_SECONDS = 15.0  # an NPU is not free at once when the process that used it has ended
FREE_SECONDS = 30.0  # where npu-smi tells who uses it, at most
_BETWEEN_LOOKS = 1.0
BROKEN = ("Alarm", "Critical")  # of npu-smi's OK, Warning, Alarm, Critical
LEAST_FREE = 1 << 20  # bytes of a disk on which something can still be written


def wait_for_cards(context: ProcessContext, check: Callable[[], None]) -> None:
    """Returns once no process uses an NPU any more, or after half a minute; raises what `check` does.

    Where that cannot be seen, the NPUs have the time that they need.
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
    """Why no further attempt can do well on this node; empty if nothing of that kind is known.

    Its processes use so many `cards`, and write to the `directories`. Raises `Stopped`.
    """
    problems = [*broken_cards(_npus(context, context.inbox.check), cards), *_full_disks(directories)]
    return problems[0] if problems else ""


def broken_cards(state: NpuState | None, cards: int) -> Iterator[str]:
    """What npu-smi shows of cards that are broken, or gone; nothing where it tells nothing. Pure."""
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
    """Returns the state that npu-smi shows now; None where it is not, or fails. Raises what `check` does."""

    def query(cancel: threading.Event) -> NpuState | None:
        return CardTools(context.environ).npus(cancel)

    task = Task("npu-smi", query, context.inbox)
    try:
        task.wait(check)
    finally:
        task.cancel()
    return task.result()
