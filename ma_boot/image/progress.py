"""What a long step of the engine shows: one moving line on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import Iterator

from ma_boot.redact import without_logins
from ma_boot.reporting import Console, Show

PLAIN_SECONDS = 10.0
_WIDTH = 100


@contextmanager
def shown(console: Console) -> Iterator[Progress]:
    """Progress on the console; a moving line is gone when the block ends."""
    with console.below() as show:
        yield Progress(console, show)


class Progress:
    """Lines that stay, and a state that the next one replaces; no login in a URL is shown."""

    def __init__(self, console: Console, show: Show) -> None:
        self._console = console
        self._show = show
        self._said = time.monotonic()

    def line(self, text: str) -> None:
        """A line that stays."""
        self._said = time.monotonic()
        self._show(())
        self._console.line(without_logins(text))

    def state(self, text: str) -> None:
        """How far it is: replaced on a terminal; elsewhere a line at most every 10 s."""
        self._show([without_logins(text)[:_WIDTH]])
        if not self._console.interactive and time.monotonic() - self._said >= PLAIN_SECONDS:
            self.line(text)
