"""Standard output, written by a thread of its own: a stalled reader never stops the training.

Also what lines look like on a terminal: their colours, and what rich makes of a table.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import select
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Callable, Deque, Iterator, List, Mapping, Optional, Sequence, Union

from ma_boot.errors import CannotCreate
from ma_boot.redact import without_secrets

if TYPE_CHECKING:
    from rich.console import RenderableType

QUEUE_BYTES = 4 << 20
PATIENCE_SECONDS = 5.0
_WRITE_BYTES = 1 << 17
_NO_WRAP, _WRAP = b"\x1b[?7l", b"\x1b[?7h"
_RED, _YELLOW, _GREEN, _BOLD, _NO_STYLE = b"\x1b[31m", b"\x1b[33m", b"\x1b[32m", b"\x1b[1m", b"\x1b[0m"
_OF_NUMBERS = (
    b"36",
    b"32",
    b"35",
    b"34",
    b"96",
    b"92",
    b"95",
    b"94",
)  # red and yellow have a meaning
_LOOKED_AT = 400  # bytes of a line, for what it tells
_PREFIX = re.compile(rb"(?:\[(?:node|rank) \d{1,9}\] |\[(?:scheduler|command|ma_boot)\] ?)+")
_TAG = re.compile(rb"\[([a-z_]+)(?: (\d{1,9}))?\]")
_FAILURE = re.compile(
    rb"\bexit code (?!0\b)\d+:|\bfailed\b +(in )?\d|\bfailed first|\bthe cause: |was killed by|\bhung\b"
    rb"|^(  \| )?(Traceback \(most|\w+(\.\w+)*(Error|Exception)\b)|\b(ERROR|CRITICAL|FATAL)\b"
)
_WARNING = re.compile(
    rb"\bWARN(ING)?\b|\w+Warning: |^(hint|warning|note): |\bretrying\b|\bhave ended badly\b"
)
_SUCCESS = re.compile(rb"\bexit code 0: ")

Show = Callable[[Sequence[str]], None]


def is_interactive(environ: Mapping[str, str], descriptor: int = 1) -> bool:
    """Whether this is a terminal on which lines can be redrawn."""
    return os.isatty(descriptor) and environ.get("TERM", "dumb") != "dumb"


def has_colours(environ: Mapping[str, str], descriptor: int = 1) -> bool:
    """Whether this is a terminal whose user wants colours (https://no-color.org)."""
    return is_interactive(environ, descriptor) and not environ.get("NO_COLOR")


class Console:
    """The only writer of standard output: output of different processes never mixes within a line.

    Output is queued. A slow reader slows the writers down: they ask `pause` before they take more output. If
    the reader takes nothing for 5 s (`patience`), lines are dropped and counted, and their number is printed
    when it reads again. A reader that has gone ends the printing, not the job.

    On an interactive console (`is_interactive`) lines can be shown below the output. They are drawn by the
    printing thread and never enter the queue, so the output itself is not changed. With `colours`, lines get
    them as they are printed.

    `accepted` counts the bytes taken so far; `room_again` is called in the printing thread when there is room
    after a `pause`.
    """

    def __init__(
        self,
        descriptor: int = 1,
        interactive: bool = False,
        patience: float = PATIENCE_SECONDS,
        colours: bool = False,
    ) -> None:
        self.interactive = interactive
        self.accepted = 0
        self.dropped_lines = 0
        self.room_again: Callable[[], None] = lambda: None
        self._descriptor = descriptor
        self._colours = colours
        self._patience = patience
        self._changed = threading.Condition()
        self._queue: Deque[bytes] = deque()
        self._queued = 0
        self._progressed = time.monotonic()
        self._unreported = 0
        self._gone = False
        self._paused = False
        self._below: Sequence[str] = ()
        self._drawn = 0  # how many of them are on the terminal
        self._thread: Optional[threading.Thread] = None

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *exc: object) -> None:
        self.flush()

    @property
    def size(self) -> os.terminal_size:
        """The size of the terminal, in columns and lines.

        Raises:
            OSError: Standard output is not a terminal.
        """
        columns, lines = os.get_terminal_size(self._descriptor)
        return os.terminal_size((columns or 80, lines or 24))  # 0 on the terminal of a container engine

    @contextlib.contextmanager
    def below(self) -> Iterator[Show]:
        """Yields what shows lines below the output, in place of earlier ones, until the block ends.

        They may have colours and are cut at the terminal's width. Without a terminal nothing is shown.
        """
        over = not self.interactive

        def show(lines: Sequence[str]) -> None:
            with self._changed:
                if not over:
                    self._below = [without_secrets(line) for line in lines]
                    self.write(b"")

        try:
            yield show
        finally:
            with self._changed:
                show(())
                over = True

    def line(self, text: str) -> None:
        """Prints each line of the text, without secrets."""
        self.write(without_secrets(text).encode("utf-8", "backslashreplace") + b"\n")

    def write(self, data: bytes) -> None:
        """Queues bytes that end with a newline, as they are; returns at once."""
        with self._changed:
            if self._gone or (self._queued > QUEUE_BYTES and self._stuck()):
                self._drop(data)
                return
            if not self._queue:
                self._progressed = time.monotonic()
            self.accepted += len(data)
            self._queue.append(data)
            self._queued += len(data)
            if self._thread is None and not self._started():
                self._print_all()
            self._changed.notify_all()

    def pause(self) -> float:
        """How many seconds to wait before more is written: 0 if there is room, or the reader has gone."""
        with self._changed:
            if self._queued <= QUEUE_BYTES or self._gone:
                return 0.0
            self._paused = True
            return max(0.0, self._progressed + self._patience - time.monotonic())

    def flush(self) -> None:
        """Waits until everything is printed, or the reader has stalled or gone."""
        with self._changed:
            while self._queue and not self._gone and not self._stuck():
                self._changed.wait(max(0.001, self._progressed + self._patience - time.monotonic()))

    def _stuck(self) -> bool:
        return time.monotonic() - self._progressed >= self._patience

    def _drop(self, data: bytes) -> None:
        lines = data.count(b"\n")
        self.dropped_lines += lines
        self._unreported += lines

    def _started(self) -> bool:
        """Starts the printing thread; False at the limit of threads, and the next write tries again."""
        thread = threading.Thread(target=self._print, name="console", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self._thread = thread
        return True

    def _print(self) -> None:
        while True:
            with self._changed:
                while not self._queue:
                    self._changed.wait()
            self._print_next()

    def _print_all(self) -> None:
        """Prints the queue in the calling thread, as long as the reader takes it."""
        while self._queue:
            self._print_next()

    def _print_next(self) -> None:
        with self._changed:
            data, last = self._queue[0], len(self._queue) == 1
        shown = data
        if self._colours:
            shown = painted(data)
        whole = self._put(self._with_below(shown, last))
        with self._changed:
            self._queue.popleft()
            self._queued -= len(data)
            if not whole:
                self._give_up()
            elif self._unreported and self._queued <= QUEUE_BYTES // 2:
                self._report_dropped()
            self._changed.notify_all()
            room = self._paused and self._queued <= QUEUE_BYTES
            self._paused = self._paused and not room
        if room:
            self.room_again()

    def _with_below(self, data: bytes, last: bool) -> bytes:
        """The data in place of the lines below, which are drawn again at the end of the queue."""
        away = b"\x1b[%dF\x1b[J" % self._drawn if self._drawn else b""
        lines = self._below if last else ()
        self._drawn = len(lines)
        if not lines:
            return away + data
        text = "".join(line + "\n" for line in lines).encode("utf-8", "backslashreplace")
        return away + data + _NO_WRAP + text.replace(b"\n", _NO_STYLE + b"\n") + _WRAP

    def _put(self, data: bytes) -> bool:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest[:_WRITE_BYTES]) :]
            except BlockingIOError:  # another process that shares the descriptor made it non-blocking
                _await_room(self._descriptor)
                continue
            except OSError:
                return False
            self._progressed = time.monotonic()
        return True

    def _give_up(self) -> None:
        self._gone = True
        for data in self._queue:
            self._drop(data)
        self._queue.clear()
        self._queued = 0

    def _report_dropped(self) -> None:
        notice = (
            f"[ma_boot] {self._unreported} lines are not shown here: standard output was blocked\n".encode()
        )
        self._unreported = 0
        self._queue.append(notice)
        self._queued += len(notice)


def print_lines(text: str, descriptor: int = 1) -> None:
    """Prints the text, without secrets, and a newline by `print_bytes`."""
    print_bytes(without_secrets(text).encode("utf-8", "backslashreplace") + b"\n", descriptor)


def print_bytes(data: Union[bytes, memoryview], descriptor: int = 1) -> None:
    """Prints at once, without a `Console`; waits for a slow reader, ignores one that has gone.

    Raises:
        CannotCreate: Standard output does not take all of it, a file on a full disk for example. An error of
            standard error is ignored: nobody could be told.
    """
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # another process that shares the descriptor made it non-blocking
            _await_room(descriptor)
        except BrokenPipeError:
            return
        except OSError as error:
            if descriptor == 2:
                return
            raise CannotCreate(f"cannot write to standard output: {error.strerror}") from error


def _await_room(descriptor: int) -> None:
    poll = select.poll()  # select(2) knows no descriptor above 1023
    poll.register(descriptor, select.POLLOUT)
    poll.poll()


def rendered(content: RenderableType, columns: int) -> List[str]:
    """What rich makes of the content, as lines of at most that many columns."""
    from rich.console import Console

    text = io.StringIO()
    Console(file=text, width=columns, color_system="standard").print(content)
    return text.getvalue().rstrip("\n").split("\n")


def painted(data: bytes) -> bytes:
    """Whole lines with colours: their prefixes by node and rank, failures red, warnings yellow.

    A line that brings colours of its own keeps them; only its prefix is painted.
    """
    return b"\n".join(map(_painted_line, data.split(b"\n")))


def _painted_line(line: bytes) -> bytes:
    prefix = _PREFIX.match(line)
    if prefix is None:
        return line
    words = line[prefix.end() :]
    return _TAG.sub(_painted_tag, prefix.group()) + _painted_words(words)


def _painted_tag(tag: re.Match[bytes]) -> bytes:
    number = tag.group(2)
    style = _BOLD if number is None else b"\x1b[%sm" % _OF_NUMBERS[int(number) % len(_OF_NUMBERS)]
    return style + tag.group() + _NO_STYLE


def _painted_words(words: bytes) -> bytes:
    start = words[:_LOOKED_AT]
    if b"\x1b" in words:
        return words
    for pattern, style in ((_FAILURE, _RED), (_WARNING, _YELLOW), (_SUCCESS, _GREEN)):
        if pattern.search(start):
            return style + words + _NO_STYLE
    return words
