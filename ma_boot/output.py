"""What the processes print: raw bytes to a file each, whole prefixed lines to the console."""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from pathlib import Path
from typing import BinaryIO, Deque, List, Optional, Tuple

from ma_boot.errors import CannotCreate

READ_BYTES = 1 << 16
PIPE_READS = 32  # more than the largest pipe (1 MiB) holds
LONGEST_LINE = 1 << 16
TAIL_LINES = 20
_LINE_END = re.compile(rb"\r\n|\n|\r")


class Console:
    """The only writer of standard output: lines of different processes never mix within a line.

    A reader that went away ends the printing, not the job.
    """

    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._gone = False

    def line(self, text: str) -> None:
        """Prints each line of the text."""
        self.write(text.encode("utf-8", "backslashreplace") + b"\n")

    def write(self, data: bytes) -> None:
        """Writes bytes that end with a newline."""
        with self._lock:
            rest = memoryview(data)
            while rest and not self._gone:
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except OSError:
                    self._gone = True


class WorkerOutput:
    """Reads one process's pipe; never blocks, and never raises for what is printed or the disk refuses.

    The last lines are kept for a report.
    """

    def __init__(self, source: BinaryIO, log_file: str, label: str, console: Console) -> None:
        """Raises `CannotCreate` where the log file cannot be made."""
        self._tail: Deque[bytes] = deque(maxlen=TAIL_LINES)
        self.log_error: Optional[OSError] = None
        self._source = source
        self._prefix = f"[{label}] ".encode()
        self._console = console
        self._partial = b""
        os.set_blocking(source.fileno(), False)
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
        self._keep(data)
        self._print(data)
        return True

    def take(self) -> None:
        """Takes all that is in the pipe, without waiting for whoever holds its other end."""
        for _ in range(PIPE_READS):  # bounded: a grandchild may go on writing for ever
            if not self.pump():
                return

    def last_lines(self) -> Tuple[str, ...]:
        """The end of what was printed so far, for a report."""
        lines = [*self._tail, self._partial] if self._partial else list(self._tail)
        return tuple(line.decode("utf-8", "replace") for line in lines)

    def finish(self) -> None:
        """Takes and prints the rest, with a last line that has no end, and closes everything."""
        self.take()
        if self._partial:
            self._emit([self._partial])
            self._partial = b""
        self._source.close()
        if self._log is not None:
            self._log.close()

    def _keep(self, data: bytes) -> None:
        if self._log is None:
            return
        try:
            self._log.write(data)
        except OSError as error:  # a full disk must not stop the training
            self.log_error = error
            self._log.close()
            self._log = None

    def _print(self, data: bytes) -> None:
        *lines, self._partial = _LINE_END.split(self._partial + data)
        if len(self._partial) > LONGEST_LINE:  # memory stays bounded: the rest comes as a line of its own
            lines.append(self._partial)
            self._partial = b""
        if lines:
            self._emit(lines)

    def _emit(self, lines: List[bytes]) -> None:
        self._tail.extend(lines)
        self._console.write(b"".join(self._prefix + line + b"\n" for line in lines))


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
