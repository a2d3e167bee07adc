"""Standard output, written by a thread of its own: a stalled reader never stops the training.

Also what lines look like on a terminal: their colours, and what rich makes of a table.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import select
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Callable

from ma_boot.errors import CannotCreate
from ma_boot.redact import without_secrets
from ma_boot.report.log_writer import PATIENCE_SECONDS, BackgroundWriter
from path_mapping.errors import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

QUEUE_BYTES = 4 << 20
_WRITE_BYTES = 1 << 17
_NO_WRAP, _WRAP = b"\x1b[?7l", b"\x1b[?7h"
_RED, _YELLOW, _GREEN, _BOLD, _NO_STYLE = b"\x1b[31m", b"\x1b[33m", b"\x1b[32m", b"\x1b[1m", b"\x1b[0m"
# Colours of nodes and ranks; red and yellow are those of failures and warnings.
_OF_NUMBERS = (b"36", b"32", b"35", b"34", b"96", b"92", b"95", b"94")
# Bytes of a line that are searched for failures and warnings.
_LOOKED_AT = 400
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
# A success that is doubtful names a failure, so this comes before the failures.
_DOUBT = re.compile(rb"\bexit code 0, but |^in doubt: ")

Show = Callable[[Sequence[str]], None]


def is_interactive(environ: Mapping[str, str], descriptor: int = 1) -> bool:
    """Returns whether this is a terminal whose lines can be redrawn."""
    return os.isatty(descriptor) and environ.get("TERM", "dumb") != "dumb"


def has_colours(environ: Mapping[str, str], descriptor: int = 1) -> bool:
    """Returns whether this is a terminal whose user wants colours (https://no-color.org)."""
    return is_interactive(environ, descriptor) and not environ.get("NO_COLOR")


class Console(BackgroundWriter[bytes]):
    """Sole writer of standard output: lines of different processes are never mixed.

    Output is queued. A slow reader slows the writers down: they ask `pause` before they take more output. If
    the reader takes nothing for 5 s (`patience`), lines are dropped and counted, and their number is printed
    when it reads again. A reader that has gone ends the printing, not the job.

    On an interactive console (`is_interactive`) lines can be shown below the output. They are drawn by the
    printing thread and never enter the queue, so the output itself is not changed. With `colours`, lines get
    them as they are printed; before that, `shown` may leave lines out.

    `accepted` counts the bytes taken so far.
    """

    def __init__(
        self,
        descriptor: int = 1,
        interactive: bool = False,
        patience: float = PATIENCE_SECONDS,
        colours: bool = False,
        shown: Callable[[bytes], bytes] = bytes,
    ) -> None:
        super().__init__("console", QUEUE_BYTES, patience)
        self.interactive = interactive
        self.accepted = 0
        self.dropped_lines = 0
        self._descriptor = descriptor
        self._colours = colours
        self._shown = shown
        self._unreported = 0
        self._gone = False
        self._below: Sequence[str] = ()
        # Number of these lines that are on the terminal.
        self._drawn = 0

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *exc: object) -> None:
        self.flush()

    @property
    def size(self) -> os.terminal_size:
        """Size of the terminal in columns and lines.

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

    def line(self, text: str, prefix: str = "") -> None:
        """Prints each line of the text, without secrets; with a prefix also without control characters."""
        shown: str = without_secrets(text)
        if prefix:
            shown = "\n".join(prefix + _without_controls(line) for line in shown.split("\n"))
        self.write(shown.encode("utf-8", "backslashreplace") + b"\n")

    def write(self, data: bytes) -> None:
        """Queues bytes that end with a newline, as they are; returns at once."""
        with self._changed:
            if self._gone or self._is_full():
                self._drop(data)
            else:
                self.accepted += len(data)
                self._put(data, len(data))

    def _drop(self, data: bytes) -> None:
        lines = data.count(b"\n")
        self.dropped_lines += lines
        self._unreported += lines

    def _write(self, item: bytes) -> None:
        last = len(self._queue) == 1
        lines = self._shown(item)
        rest = memoryview(self._with_below(painted(lines) if self._colours else lines, last))
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest[:_WRITE_BYTES]) :]
            # Another process that shares the descriptor may have made it non-blocking.
            except BlockingIOError:
                _await_room(self._descriptor)
                continue
            except OSError:
                self._gone = True
                return
            self._progressed = time.monotonic()

    def _written(self) -> None:
        if self._gone:
            for data, _ in self._queue:
                self._drop(data)
            self._queue.clear()
            self._queued = 0
        elif self._unreported and self._queued <= QUEUE_BYTES // 2:
            lines, self._unreported = self._unreported, 0
            notice = f"[ma_boot] {lines} lines are not shown here: standard output was blocked\n".encode()
            self._queue.append((notice, len(notice)))
            self._queued += len(notice)

    def _with_below(self, data: bytes, last: bool) -> bytes:
        """Replaces the lines below by the data, and draws them again at the end of the queue."""
        away = b"\x1b[%dF\x1b[J" % self._drawn if self._drawn else b""
        lines = self._below if last else ()
        self._drawn = len(lines)
        if not lines:
            return away + data
        text = "".join(line + "\n" for line in lines).encode("utf-8", "backslashreplace")
        return away + data + _NO_WRAP + text.replace(b"\n", _NO_STYLE + b"\n") + _WRAP


def _without_controls(line: str) -> str:
    return "\t".join(map(printable, line.split("\t")))


def print_lines(text: str, descriptor: int = 1) -> None:
    """Prints the text, without secrets, and a newline by `print_bytes`."""
    print_bytes(without_secrets(text).encode("utf-8", "backslashreplace") + b"\n", descriptor)


def print_bytes(data: bytes | memoryview, descriptor: int = 1) -> None:
    """Prints at once, without a `Console`; waits for a slow reader, ignores a closed one.

    Raises:
        CannotCreate: Standard output does not take all of it, a file on a full disk for example. An error of
            standard error is ignored: there is no other place to report it.
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


def rendered(content: RenderableType, columns: int) -> list[str]:
    """Renders content by rich, as lines of at most that many columns."""
    from rich.console import Console

    text = io.StringIO()
    Console(file=text, width=columns, color_system="standard").print(content)
    return text.getvalue().rstrip("\n").split("\n")


def painted(data: bytes) -> bytes:
    """Colours complete lines: prefixes by node and rank, failures red, warnings yellow.

    A line that brings colours of its own keeps them; only its prefix is painted.
    """
    return b"\n".join(map(_painted_line, data.split(b"\n")))


def _painted_line(line: bytes) -> bytes:
    prefix = _PREFIX.match(line)
    if prefix is None:
        return line
    words = line[prefix.end() :]
    styles = ((_DOUBT, _YELLOW), (_FAILURE, _RED), (_WARNING, _YELLOW), (_SUCCESS, _GREEN))
    style = next((style for pattern, style in styles if pattern.search(words[:_LOOKED_AT])), None)
    if style is not None and b"\x1b" not in words:
        words = style + words + _NO_STYLE
    return _TAG.sub(_painted_tag, prefix.group()) + words


def _painted_tag(tag: re.Match[bytes]) -> bytes:
    number = tag.group(2)
    style = _BOLD if number is None else b"\x1b[%sm" % _OF_NUMBERS[int(number) % len(_OF_NUMBERS)]
    return style + tag.group() + _NO_STYLE
