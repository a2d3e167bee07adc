"""Standard output, written by a thread of its own: a reader that stands still never stops the training."""

from __future__ import annotations

import contextlib
import io
import os
import select
import threading
import time
from collections import deque
from typing import Callable, Deque, Iterator, Optional, TextIO

ROOM_BYTES = 4 << 20
PATIENCE_SECONDS = 5.0
ERASE_LINE = b"\r\x1b[2K"
_WRITE_BYTES = 1 << 17


class Console:
    """The only writer of standard output: lines of different processes never mix within a line.

    What is written waits in a queue. A slow reader slows the writers down: they ask `pause` before they take
    more output. A reader that takes nothing for 5 s is waited for no longer: lines are dropped, counted, and
    said when it comes back. One that went away ends the printing, not the job.
    """

    def __init__(self, descriptor: int = 1, patience: float = PATIENCE_SECONDS) -> None:
        self.accepted = 0
        self.dropped_lines = 0
        self.room_again: Callable[[], None] = lambda: None
        self._descriptor = descriptor
        self._patience = patience
        self._changed = threading.Condition()
        self._queue: Deque[bytes] = deque()
        self._queued = 0
        self._moved = time.monotonic()
        self._unsaid = 0
        self._gone = False
        self._awaited = False
        self._erase = b""
        self._thread: Optional[threading.Thread] = None

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *exc: object) -> None:
        self.flush()

    @property
    def is_terminal(self) -> bool:
        """True where a person sees it at once, and a line can be taken back."""
        return os.isatty(self._descriptor)

    @contextlib.contextmanager
    def below(self) -> Iterator[TextIO]:
        """A file for what stays below all lines, a progress bar: a line that is printed takes its place."""
        self._erase = ERASE_LINE
        try:
            yield _Below(self)
        finally:
            self._erase = b""

    def line(self, text: str) -> None:
        """Prints each line of the text."""
        self.write(self._erase + text.encode("utf-8", "backslashreplace") + b"\n")

    def write(self, data: bytes) -> None:
        """Takes bytes that end with a newline; returns at once."""
        with self._changed:
            if self._gone or (self._queued > ROOM_BYTES and self._stuck()):
                self._drop(data)
                return
            if not self._queue:
                self._moved = time.monotonic()
            self.accepted += len(data)
            self._queue.append(data)
            self._queued += len(data)
            if self._thread is None:
                self._thread = threading.Thread(target=self._print, name="console", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def pause(self) -> float:
        """For how many seconds nothing more should be written: 0 when there is room, or no hope."""
        with self._changed:
            if self._queued <= ROOM_BYTES or self._gone:
                return 0.0
            self._awaited = True
            return max(0.0, self._moved + self._patience - time.monotonic())

    def flush(self) -> None:
        """Returns when everything is printed, or the reader takes nothing any more."""
        with self._changed:
            while self._queue and not self._gone and not self._stuck():
                self._changed.wait(max(0.001, self._moved + self._patience - time.monotonic()))

    def _stuck(self) -> bool:
        return time.monotonic() - self._moved >= self._patience

    def _drop(self, data: bytes) -> None:
        lines = data.count(b"\n")
        self.dropped_lines += lines
        self._unsaid += lines

    def _print(self) -> None:
        while True:
            with self._changed:
                while not self._queue:
                    self._changed.wait()
                data = self._queue[0]
            whole = self._put(data)
            with self._changed:
                self._queue.popleft()
                self._queued -= len(data)
                if not whole:
                    self._give_up()
                elif self._unsaid and self._queued <= ROOM_BYTES // 2:
                    self._say_dropped()
                self._changed.notify_all()
                room = self._awaited and self._queued <= ROOM_BYTES
                self._awaited = self._awaited and not room
            if room:
                self.room_again()

    def _put(self, data: bytes) -> bool:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest[:_WRITE_BYTES]) :]
            except BlockingIOError:  # somebody who shares it made it so
                select.select([], [self._descriptor], [])
                continue
            except OSError:
                return False
            self._moved = time.monotonic()
        return True

    def _give_up(self) -> None:
        self._gone = True
        for data in self._queue:
            self._drop(data)
        self._queue.clear()
        self._queued = 0

    def _say_dropped(self) -> None:
        notice = f"[ma_boot] {self._unsaid} lines are not shown here: standard output was blocked\n".encode()
        self._unsaid = 0
        self._queue.append(notice)
        self._queued += len(notice)


class _Below(io.StringIO):
    """What is written goes to the console as it is."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def write(self, text: str) -> int:
        self._console.write(text.encode("utf-8", "backslashreplace"))
        return len(text)


def print_lines(text: str, descriptor: int = 1) -> None:
    """Prints the text and returns when it is printed, however slow its reader is, or the reader is gone."""
    rest = memoryview(text.encode("utf-8", "backslashreplace") + b"\n")
    with contextlib.suppress(OSError):
        while rest:
            rest = rest[os.write(descriptor, rest) :]
