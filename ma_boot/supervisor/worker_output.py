"""What one process prints: raw bytes to its file, whole prefixed lines to the console."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import BinaryIO, Optional

from ma_boot.errors import CannotCreate
from ma_boot.reporting.console import Console

READ_BYTES = 1 << 20
PIPE_READS = 32  # more than the largest pipe (1 MiB) holds, however small the pieces are
LONGEST_LINE = 1 << 16
TAIL_BYTES = 1 << 16
BAR_SECONDS = 5.0  # a progress bar's states that are overwritten at once: one line for as long
_F_SETPIPE_SZ = 1031  # linux/fcntl.h; Python has the name from 3.10 on


class WorkerOutput:
    """Reads one process's pipe; never blocks, and never raises for what is printed or the disk refuses.

    `shown` says whether the console gets it; the file always does, byte for byte. `first_ns` is the monotonic
    clock at the first output.
    """

    def __init__(self, source: BinaryIO, log_file: str, label: str, console: Console, shown: bool) -> None:
        """Raises `CannotCreate` where the log file cannot be made."""
        self.shown = shown
        self.lost = 0
        self.heard = time.monotonic()
        self.first_ns: Optional[int] = None
        self._tail = bytearray()
        self._source = source
        self._label = label
        self._prefix = f"[{label}] ".encode()
        self._console = console
        self._partial = b""
        self._bar_shown = 0.0
        self._log_file = log_file
        os.set_blocking(source.fileno(), False)
        with contextlib.suppress(OSError):  # a limit of this user's: then it stays 64 KiB
            fcntl.fcntl(source.fileno(), _F_SETPIPE_SZ, READ_BYTES)
        self._log: Optional[BinaryIO] = _new_log(Path(log_file))

    def fileno(self) -> int:
        """The pipe's read end, for a selector."""
        return self._source.fileno()

    def pump(self) -> Optional[bool]:
        """Takes what is there: True for some output, False for none at the moment, None at the end."""
        try:
            data = os.read(self._source.fileno(), READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            return None
        self.heard = time.monotonic()
        if self.first_ns is None:
            self.first_ns = time.monotonic_ns()
        self._keep(data)
        self._tail += data[-TAIL_BYTES:]
        if len(self._tail) > 2 * TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]
        if self.shown:
            self._print(data)
        return True

    def take(self) -> None:
        """Takes all that is in the pipe, without waiting for whoever holds its other end."""
        for _ in range(PIPE_READS):  # bounded: a grandchild may go on writing for ever
            if not self.pump():
                return

    def tail(self) -> str:
        """The last 64 KiB that were printed, for a report."""
        return self._tail[-TAIL_BYTES:].decode("utf-8", "replace")

    def hide(self) -> None:
        """From now on only the file gets it; a line that has begun is printed as far as it is known."""
        self._print_rest()
        self.shown = False

    def finish(self) -> None:
        """Takes and prints the rest, with a last line that has no end, and closes everything."""
        self.take()
        self._print_rest()
        self._source.close()
        if self._log is not None:
            self._log.close()

    def _keep(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest and self._log is not None:
            try:
                rest = rest[os.write(self._log.fileno(), rest) :]
            except OSError as error:  # a full disk must not stop the training
                self._log.close()
                self._log = None
                self._console.line(
                    f"[ma_boot] {self._label}: its log file ends here: {self._log_file}: {error.strerror}"
                )
        self.lost += len(rest)

    def _print(self, data: bytes) -> None:
        """Prints the lines that are complete now; memory stays bounded for a line that never is."""
        text = self._partial + data
        if b"\r" in text:
            lines, self._partial = self._settled(text)
        else:
            end = text.rfind(b"\n") + 1
            lines, self._partial = text[:end], text[end:]
        if len(self._partial) > LONGEST_LINE:
            lines += self._partial + b"\n"
            self._partial = b""
        if lines:
            self._emit(lines)

    def _settled(self, text: bytes) -> tuple[bytes, bytes]:
        """The complete lines as a terminal shows them at last, and the rest.

        A carriage return begins the line anew: of a progress bar's states the last one counts, and every
        5 s the one of that moment.
        """
        *whole, rest = text.replace(b"\r\n", b"\n").split(b"\n")
        lines = [line.rstrip(b"\r").rpartition(b"\r")[2] for line in whole]
        body = rest.rstrip(b"\r")
        *overwritten, state = body.split(b"\r")
        now = time.monotonic()
        if any(overwritten) and now - self._bar_shown >= BAR_SECONDS:
            self._bar_shown = now
            lines.append(next(filter(None, reversed(overwritten))))
        ending = rest[len(body) :][:1]  # the newline of a \r\n may still come
        return b"".join(line + b"\n" for line in lines), state + ending

    def _print_rest(self) -> None:
        rest = self._partial.rstrip(b"\r").rpartition(b"\r")[2]
        self._partial = b""
        if rest and self.shown:
            self._emit(rest + b"\n")

    def _emit(self, lines: bytes) -> None:
        self._console.write(self._prefix + lines[:-1].replace(b"\n", b"\n" + self._prefix) + b"\n")


def _new_log(path: Path) -> BinaryIO:
    """A new file of this name; one that an earlier attempt left gets a number: `x.txt` becomes `x.1.txt`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        keep_earlier(path)
        return path.open("wb", buffering=0)
    except OSError as error:
        raise CannotCreate(f"cannot make the log file {path}: {error.strerror}") from error


def keep_earlier(path: Path) -> None:
    """Moves a file that is in the way aside, under the first free number."""
    number = 1
    while path.exists():
        aside = path.with_name(f"{path.stem}.{number}{path.suffix}")
        if not aside.exists():
            path.rename(aside)
        number += 1
