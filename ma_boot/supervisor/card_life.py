"""Whether the cards of quiet workers compute: a rank that waits for its card is no hang."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Dict, List, Mapping, Optional, Sequence, Tuple

from ma_boot.processes import SignalInbox, Task
from ma_boot.supervisor.worker import Worker

if TYPE_CHECKING:
    from threading import Event

    from ma_boot.metrics import CardTools


END_SECONDS = 0.5


class CardLife:
    """Looks at the cards while a worker is quiet; nothing of it is loaded before."""

    def __init__(self, inbox: SignalInbox) -> None:
        self._inbox = inbox
        self._tools: Optional[CardTools] = None
        self._task: Optional[Task[Tuple[float, List[int]]]] = None
        self._busy: Dict[int, float] = {}  # when a card was last seen to compute

    def close(self) -> None:
        """Ends the tool, if it is at work."""
        if self._task is not None:
            self._task.cancel()
            self._task.wait(lambda: None, time.monotonic() + END_SECONDS)

    def last_seen(self, worker: Worker) -> float:
        """When the worker's card was last seen to compute (monotonic seconds); -inf if it never was.

        A command that starts the ranks itself has all cards.
        """
        if self._task is not None and self._task.finished:
            task, self._task = self._task, None
            at, cards = task.result()
            self._busy.update(dict.fromkeys(cards, at))
        if worker.spec.local_rank is None:
            return max(self._busy.values(), default=-math.inf)
        return self._busy.get(_card_of(worker), -math.inf)

    def look(self, quiet: Sequence[Worker]) -> None:
        """Begins to look at the cards of these workers, unless the last look is not over."""
        if self._task is None:
            environ = quiet[0].spec.environ
            try:
                self._task = Task("cards", lambda cancel: self._looked(environ, cancel), self._inbox)
            except RuntimeError:  # the limit of threads
                return

    def _looked(self, environ: Mapping[str, str], cancel: Event) -> Tuple[float, List[int]]:
        from ma_boot.metrics import CardTools, works

        if self._tools is None:
            self._tools = CardTools(environ)
        return time.monotonic(), [card.card for card in self._tools.look(cancel) if works(card)]


def _card_of(worker: Worker) -> int:
    """The number of the worker's card in this container."""
    given = worker.spec.environ.get("ASCEND_DEVICE_ID", "")
    return int(given) if given.isdecimal() else worker.spec.local_rank or 0
