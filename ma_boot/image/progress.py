"""What a long step of the engine shows: one moving line on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import Iterator, Optional, TextIO

from ma_boot.console import ERASE_LINE, Console
from ma_boot.secrets import without_logins

PLAIN_SECONDS = 10.0
_WIDTH = 100


@contextmanager
def shown() -> Iterator[Progress]:
    """Progress on standard output; a moving line is gone when the block ends."""
    with Console() as console, ExitStack() as stack:
        below = stack.enter_context(console.below()) if console.is_terminal else None
        progress = Progress(console, below)
        try:
            yield progress
        finally:
            progress.clear()


class Progress:
    """Lines that stay, and a state that the next one replaces; no login in a URL is shown.

    `below` is the console's place for the moving line, None where nothing can be replaced.
    """

    def __init__(self, console: Console, below: Optional[TextIO]) -> None:
        self._console = console
        self._below = below
        self._said = time.monotonic()

    def line(self, text: str) -> None:
        """A line that stays."""
        self._said = time.monotonic()
        self._console.line(without_logins(text))

    def state(self, text: str) -> None:
        """How far it is: replaced on a terminal; elsewhere a line at most every 10 s."""
        if self._below is not None:
            self.clear()
            self._below.write(without_logins(text)[:_WIDTH])
        elif time.monotonic() - self._said >= PLAIN_SECONDS:
            self.line(text)

    def clear(self) -> None:
        """Takes the moving line away."""
        if self._below is not None:
            self._below.write(ERASE_LINE.decode())
