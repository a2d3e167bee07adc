"""What a long step of the engine shows: one moving line on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import Iterator

from ma_boot.console import Console
from ma_boot.secrets import masked

PLAIN_SECONDS = 10.0
_WIDTH = 100
_CLEAR_LINE = b"\r\x1b[K"


@contextmanager
def shown() -> Iterator[Progress]:
    """Progress on standard output; a moving line is gone when the block ends."""
    with Console() as console:
        progress = Progress(console, os.isatty(1))
        try:
            yield progress
        finally:
            progress.clear()


class Progress:
    """Lines that stay, and a state that the next one replaces; no login in a URL is shown."""

    def __init__(self, console: Console, moving: bool) -> None:
        self._console = console
        self._moving = moving
        self._said = time.monotonic()

    def line(self, text: str) -> None:
        """A line that stays."""
        self.clear()
        self._said = time.monotonic()
        self._console.line(without_login(text))

    def state(self, text: str) -> None:
        """How far it is: replaced on a terminal; elsewhere a line at most every 10 s."""
        if self._moving:
            self._console.write(_CLEAR_LINE + without_login(text)[:_WIDTH].encode())
        elif time.monotonic() - self._said >= PLAIN_SECONDS:
            self.line(text)

    def clear(self) -> None:
        """Takes the moving line away."""
        if self._moving:
            self._console.write(_CLEAR_LINE)


def without_login(text: str) -> str:
    """The text without user and password of URLs in it."""
    return masked({"text": text})["text"] or ""
