"""Lines of a worker's output for the console: whole, with a prefix, and progress bars at intervals."""

from __future__ import annotations

import time
from typing import Callable

# Bytes; a longer line is printed in pieces, so that memory stays bounded.
LONGEST_LINE = 1 << 16
# Seconds between two states of a progress bar that overwrites itself.
PROGRESS_SECONDS = 5.0


class ConsoleLines:
    """Splits output into lines and passes them, with the prefix, to `write`."""

    def __init__(self, prefix: bytes, write: Callable[[bytes], object]) -> None:
        self._prefix = prefix
        self._write = write
        self._partial = b""
        self._progress_shown = 0.0

    def add(self, data: bytes) -> None:
        """Writes the lines that the data completes, and keeps the rest until its end comes."""
        if b"\r" in data or b"\r" in self._partial:
            lines, self._partial = self._resolve_returns(self._partial + data)
            if lines:
                self._emit(b"", lines)
        # Output without progress bars may come at full speed: this path makes few copies.
        elif (end := data.rfind(b"\n") + 1) > 0:
            begun, self._partial = self._partial, data[end:]
            self._emit(begun, data[:end])
        else:
            self._partial += data
        if len(self._partial) > LONGEST_LINE:
            self._emit(self._partial, b"\n")
            self._partial = b""

    def end(self) -> None:
        """Writes the begun line as if it had ended."""
        rest = self._partial.rstrip(b"\r").rpartition(b"\r")[2]
        self._partial = b""
        if rest:
            self._emit(rest, b"\n")

    def _resolve_returns(self, text: bytes) -> tuple[bytes, bytes]:
        """Returns the complete lines as a terminal would leave them, and the rest.

        A carriage return restarts the line. Of a progress bar the last state becomes a line, and every
        PROGRESS_SECONDS the current one.
        """
        *whole, rest = text.replace(b"\r\n", b"\n").split(b"\n")
        lines = [line.rstrip(b"\r").rpartition(b"\r")[2] for line in whole]
        body = rest.rstrip(b"\r")
        *overwritten, state = body.split(b"\r")
        now = time.monotonic()
        if any(overwritten) and now - self._progress_shown >= PROGRESS_SECONDS:
            self._progress_shown = now
            lines.append(next(filter(None, reversed(overwritten))))
        # A return at the end may be the first half of "\r\n", whose second half is still in the pipe.
        ending = b"\r" if rest.endswith(b"\r") else b""
        return b"".join(line + b"\n" for line in lines), state + ending

    def _emit(self, begun: bytes, lines: bytes) -> None:
        """Writes the line begun by an earlier read, completed by the first of `lines`, and the others."""
        rest = lines[:-1].replace(b"\n", b"\n" + self._prefix)
        self._write(b"".join((self._prefix, begun, rest, b"\n")))
