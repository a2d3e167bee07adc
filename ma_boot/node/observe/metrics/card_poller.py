"""Reads the cards in a thread of its own, as their tools may hang in the driver."""

from __future__ import annotations

import threading

from ma_boot.node.observe.metrics.cards import CardTools
from ma_boot.node.observe.metrics.record import CardSample

# Seconds; max. time that a sample waits for the tools.
WAIT_SECONDS = 1.0
# Seconds; max. wait at the end for the thread, which kills a tool that hangs.
CLOSE_SECONDS = 0.3


class CardPoller:
    """Polls the tools of the cards; a tool that hangs delays only its own values."""

    def __init__(self, tools: CardTools, interval: float) -> None:
        self._tools = tools
        self._wait_seconds = min(WAIT_SECONDS, interval / 2)
        self._thread: threading.Thread | None = None
        self._found: tuple[CardSample, ...] = ()
        self.of_run: tuple[CardSample, ...] = ()
        self.of_period: tuple[CardSample, ...] = ()

    @property
    def kind(self) -> str:
        """`npu`, `gpu`, or empty without cards."""
        return self._tools.kind

    def poll(self, cancel: threading.Event) -> None:
        """Starts the tools if they are due, and takes their values as soon as they are there."""

        def look() -> None:
            self._found = self._tools.sample(cancel)

        if self._thread is None and self._tools.is_due:
            self._thread = threading.Thread(target=look, name="cards", daemon=True)
            self._thread.start()
        if self._thread is not None:
            self._thread.join(self._wait_seconds)
            if not self._thread.is_alive():
                self._thread = None
                self.of_period = self._found or self.of_period
                self.of_run = self.of_period or self.of_run

    def begin_period(self) -> None:
        """Forgets the values of the period."""
        self.of_period = ()

    def close(self) -> None:
        """Waits a little for the thread, once its `cancel` is set."""
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
