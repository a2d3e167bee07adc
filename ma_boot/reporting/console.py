"""Standard output, written by a thread of its own: a reader that stands still never stops the training."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import deque
from typing import Callable, Deque, Iterator, Mapping, Optional, Sequence

ROOM_BYTES = 4 << 20
PATIENCE_SECONDS = 5.0
_WRITE_BYTES = 1 << 17
_AS_WIDE_AS_IT_IS, _WRAPPED, _PLAIN = b"\x1b[?7l", b"\x1b[?7h", b"\x1b[0m"

Show = Callable[[Sequence[str]], None]


def can_move(environ: Mapping[str, str], descriptor: int = 1) -> bool:
    """Whether this is a terminal, before which a person sits, and on which lines can be taken back."""
    return os.isatty(descriptor) and environ.get("TERM", "dumb") != "dumb"


class Console:
    """The only writer of standard output: lines of different processes never mix within a line.

    What is written waits in a queue. A slow reader slows the writers down: they ask `pause` before they take
    more output. A reader that takes nothing for 5 s is waited for no longer: lines are dropped, counted, and
    said when it comes back. One that went away ends the printing, not the job.

    Where it is moving (`can_move`), lines can be shown below all that is printed. The printing thread alone
    paints them, and they never enter the queue: nothing of the output is touched.
    """

    def __init__(self, descriptor: int = 1, moving: bool = False, patience: float = PATIENCE_SECONDS) -> None:
        self.moving = moving
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
        self._below: Sequence[str] = ()
        self._painted = 0  # how many of them the terminal shows
        self._thread: Optional[threading.Thread] = None

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *exc: object) -> None:
        self.flush()

    @property
    def size(self) -> os.terminal_size:
        """Of the terminal, in columns and lines; raises `OSError` where there is none."""
        columns, lines = os.get_terminal_size(self._descriptor)
        return os.terminal_size((columns or 80, lines or 24))  # an engine's terminal may have no size

    @contextlib.contextmanager
    def below(self) -> Iterator[Show]:
        """What shows lines below the output, in place of those before, until the block ends.

        Each may have colours, and stays one line. On a console that is not moving nothing is shown.
        """
        over = not self.moving

        def show(lines: Sequence[str]) -> None:
            with self._changed:
                if not over:
                    self._below = lines
                    self.write(b"")

        try:
            yield show
        finally:
            with self._changed:
                show(())
                over = True

    def line(self, text: str) -> None:
        """Prints each line of the text."""
        self.write(text.encode("utf-8", "backslashreplace") + b"\n")

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
                data, last = self._queue[0], len(self._queue) == 1
            whole = self._put(self._with_below(data, last))
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

    def _with_below(self, data: bytes, last: bool) -> bytes:
        """The data in place of what is below, which comes back after the last of the queue."""
        away = b"\x1b[%dF\x1b[J" % self._painted if self._painted else b""
        lines = self._below if last else ()
        self._painted = len(lines)
        if not lines:
            return away + data
        text = "".join(line + "\n" for line in lines).encode("utf-8", "backslashreplace")
        return away + data + _AS_WIDE_AS_IT_IS + text.replace(b"\n", _PLAIN + b"\n") + _WRAPPED

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


def print_lines(text: str, descriptor: int = 1) -> None:
    """Prints the text and returns when it is printed, however slow its reader is, or the reader is gone."""
    rest = memoryview(text.encode("utf-8", "backslashreplace") + b"\n")
    with contextlib.suppress(OSError):
        while rest:
            rest = rest[os.write(descriptor, rest) :]
