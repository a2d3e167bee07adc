"""Shows the progress of the engine: a line that changes on a terminal, a line from time to time elsewhere."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import Iterator

from ma_boot.redact import without_secrets
from ma_boot.reporting import Console, Show

PLAIN_SECONDS = 10.0
_WIDTH = 100


@contextmanager
def shown(console: Console) -> Iterator[EngineProgress]:
    """Progress on the console; the line that changes is removed at the end of the block."""
    with console.below() as show:
        yield EngineProgress(console, show)


class EngineProgress:
    """Permanent lines, and a status line that is replaced."""

    def __init__(self, console: Console, show: Show) -> None:
        self._console = console
        self._show = show
        self._said = time.monotonic()

    def line(self, text: str) -> None:
        """Prints a permanent line."""
        self._said = time.monotonic()
        self._show(())
        self._console.line(text)

    def state(self, text: str) -> None:
        """Shows the status: replaces it on a terminal, else prints a line at most every 10 s."""
        self._show([without_secrets(text)[:_WIDTH]])
        if not self._console.interactive and time.monotonic() - self._said >= PLAIN_SECONDS:
            self.line(text)
