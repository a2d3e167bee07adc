"""Whether workers that neither print nor use CPU time are alive: their cards compute, or they move data."""

from __future__ import annotations

import math
import time
from threading import Event
from typing import TYPE_CHECKING, Collection, Dict, Mapping, Optional, Sequence, Set, Tuple

from ma_boot.processes import SignalInbox, Task, io_counters
from ma_boot.supervisor.worker import Worker

if TYPE_CHECKING:
    from ma_boot.metrics import CardTools


END_SECONDS = 0.5
LIVELY_BYTES = 1 << 16  # a second: what polls a file or /proc, or logs its heartbeat, moves less
SHORTEST_PAUSE = 1.0  # seconds between two looks at the cards
LOOKS = 8  # within the seconds, where these are few
WORK_PAUSE = 3.0  # times what the tool took: it uses CPU time
# Of files, pipes and terminals; and of storage, for mapped files, and for calls that last.
_MOVED = ("rchar", "wchar", "read_bytes", "write_bytes")


class QuietLife:
    """Looks at what quiet workers do; nothing of it is loaded before one is quiet."""

    def __init__(self, inbox: SignalInbox) -> None:
        self._inbox = inbox
        self._moved: Dict[int, float] = {}  # when a worker was last seen to read or write
        self._counted: Dict[int, Tuple[float, Dict[int, int]]] = {}
        self._tools: Optional[CardTools] = None
        self._task: Optional[Task[Dict[int, float]]] = None
        self._busy: Dict[int, float] = {}  # when a card was last seen to compute

    def close(self) -> None:
        """Ends the tool, if it is at work."""
        if self._task is not None:
            self._task.cancel()
            self._task.wait(lambda: None, time.monotonic() + END_SECONDS)

    def last_seen(self, worker: Worker) -> float:
        """When its card was last seen to compute, or the worker to move data; monotonic seconds, or -inf.

        A command that starts the ranks itself has all cards.
        """
        if self._task is not None and self._task.finished:
            task, self._task = self._task, None
            self._busy.update(task.result())
        moved = self._moved.get(worker.pid, -math.inf)
        if worker.spec.local_rank is None:
            return max([moved, *self._busy.values()])
        return max(moved, self._busy.get(_card_of(worker), -math.inf))

    def look_at_data(self, quiet: Mapping[int, Collection[int]]) -> None:
        """Looks whether the processes of quiet workers have moved data since the last look.

        `quiet` are the processes by the worker's pid.
        """
        now = time.monotonic()
        before, self._counted = self._counted, {}
        for worker, members in quiet.items():
            counters = {pid: io_counters(pid) for pid in members}
            counted = {
                pid: sum(found[name] for name in _MOVED if name in found) for pid, found in counters.items()
            }
            self._counted[worker] = now, counted
            if worker in before:
                then, known = before[worker]
                moved = sum(max(0, count - known.get(pid, count)) for pid, count in counted.items())
                if moved > LIVELY_BYTES * (now - then):
                    self._moved[worker] = now

    def look_at_cards(self, quiet: Sequence[Worker], seconds: float) -> None:
        """Begins to look at the cards of these workers, unless the last looks are not over.

        A card that computes is idle from time to time, so it is looked at for so many `seconds`, until it was
        seen to compute.
        """
        if self._task is None and quiet:
            environ = quiet[0].spec.environ
            wanted = {_card_of(worker) for worker in quiet if worker.spec.local_rank is not None}
            try:
                self._task = Task(
                    "cards", lambda cancel: self._looked(environ, wanted, seconds, cancel), self._inbox
                )
            except RuntimeError:  # the limit of threads
                return

    def _looked(
        self, environ: Mapping[str, str], wanted: Set[int], seconds: float, cancel: Event
    ) -> Dict[int, float]:
        """When each card was last seen to compute."""
        from ma_boot.metrics import CardTools, works

        if self._tools is None:
            self._tools = CardTools(environ)
        until = time.monotonic() + seconds
        busy: Dict[int, float] = {}
        while True:
            began = time.monotonic()
            busy.update((card.card, began) for card in self._tools.look(cancel) if works(card))
            now = time.monotonic()
            pause = max(min(SHORTEST_PAUSE, seconds / LOOKS), WORK_PAUSE * (now - began))
            seen = wanted <= busy.keys() if wanted else bool(busy)
            if seen or now + pause > until or not self._tools.kind or cancel.wait(pause):
                return busy


def _card_of(worker: Worker) -> int:
    """The number of the worker's card in this container."""
    given = worker.spec.environ.get("ASCEND_DEVICE_ID", "")
    return int(given) if given.isdecimal() else worker.spec.local_rank or 0
