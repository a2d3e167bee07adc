"""What workers print: raw bytes to their log files, whole lines with a prefix to the console."""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import threading
import time
from pathlib import Path
from typing import BinaryIO

from ma_boot.errors import CannotCreate
from ma_boot.node.launch.launch_plan import WorkerSpec
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.files import keep_earlier
from ma_boot.report.journal import Journal
from ma_boot.report.log_writer import LogFile
from ma_boot.wording import Message

READ_BYTES = 1 << 18  # larger pieces do not stay in the cache: ten times the time for each byte
READS = 4  # of one output in a row
PIPE_BYTES = 1 << 20
PAUSE_SECONDS = 0.002  # after each read of all outputs: the pipes hold what is printed meanwhile
PIPE_READS = 32  # more than enough to empty the largest pipe (1 MiB)
LONGEST_LINE = 1 << 16
TAIL_BYTES = 1 << 16
PROGRESS_SECONDS = 5.0  # a progress bar that overwrites itself is shown once in this time
_F_SETPIPE_SZ = 1031  # linux/fcntl.h; Python has the name since 3.10


class WorkerOutput:
    """Reads the pipe of a worker; never blocks, and never fails because of what is printed or of a full disk.

    `shown` says whether the console gets the output; the log file always gets it, byte for byte.
    `last_output` is when the last output came (monotonic seconds).
    """

    def __init__(self, source: BinaryIO, spec: WorkerSpec, journal: Journal) -> None:
        """Creates the log file.

        Raises:
            CannotCreate: the log file cannot be created.
        """
        self.shown = spec.shown
        self.last_output = time.monotonic()
        self._source = source
        self._spec = spec
        self._journal = journal
        self._prefix = f"[{spec.label}] ".encode()
        self._silent = True
        self._tail = bytearray()
        self._received = 0
        self._reading = threading.Lock()  # of the last two, which `since` needs at the same moment
        self._partial = b""
        self._progress_shown = 0.0
        os.set_blocking(source.fileno(), False)
        with contextlib.suppress(OSError):  # over this user's limit (pipe(7)): the pipe keeps its 64 KiB
            fcntl.fcntl(source.fileno(), _F_SETPIPE_SZ, PIPE_BYTES)
        where = f"{spec.label}: its log file is incomplete from here on: {spec.log_file}"
        self._log = LogFile(_new_log(Path(spec.log_file)), lambda reason: journal.warn(f"{where}: {reason}"))

    @property
    def lost(self) -> int:
        """The bytes that the log file did not take so far."""
        return self._log.lost

    def fileno(self) -> int:
        """The read end of the pipe, for a selector."""
        return self._source.fileno()

    def pump(self) -> bool | None:
        """Reads once: True for some output, False if there is none at the moment, None at the end of file."""
        try:
            data = os.read(self._source.fileno(), READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            return None
        self.last_output = time.monotonic()
        if self._silent:
            self._silent = False
            self._journal.event(
                "first-output", label=self._spec.label, rank=self._spec.rank, first_ns=time.monotonic_ns()
            )
        self._journal.logs.append(self._log, data)
        with self._reading:
            self._received += len(data)
            self._tail += data[-TAIL_BYTES:]
            if len(self._tail) > 2 * TAIL_BYTES:
                del self._tail[:-TAIL_BYTES]
        if self.shown:
            self._print(data)
        return True

    def take(self) -> None:
        """Empties the pipe, without waiting for processes that hold its other end."""
        for _ in range(PIPE_READS):  # bounded: a grandchild may write forever
            if not self.pump():
                return

    def tail(self) -> str:
        """The last 64 KiB of the output, for the report."""
        return self._tail[-TAIL_BYTES:].decode("utf-8", "replace")

    def since(self, position: int) -> tuple[int, bytes, float]:
        """The number of all bytes so far, the last 64 KiB of those after `position`, and when the last came.

        For any thread: nothing is read for it, and the output waits for it no longer than a copy takes.
        """
        with self._reading:
            new = min(self._received - position, TAIL_BYTES)
            return self._received, bytes(self._tail[len(self._tail) - new :]), self.last_output

    def hide(self) -> None:
        """Shows nothing more on the console, after what is known of the current line."""
        self._print_rest()
        self.shown = False

    def close(self) -> None:
        """Reads and prints the rest, including a last line without a newline, and closes pipe and file."""
        self.take()
        self._print_rest()
        self._source.close()
        self._journal.logs.close(self._log)

    def _print(self, data: bytes) -> None:
        """Prints complete lines, and a line that gets too long in pieces: memory is bounded."""
        if b"\r" in data or b"\r" in self._partial:
            lines, self._partial = self._as_displayed(self._partial + data)
            if lines:
                self._emit(b"", lines)
        elif (end := data.rfind(b"\n") + 1) > 0:  # with few copies: it may be printed at full speed
            begun, self._partial = self._partial, data[end:]
            self._emit(begun, data[:end])
        else:
            self._partial += data
        if len(self._partial) > LONGEST_LINE:
            self._emit(self._partial, b"\n")
            self._partial = b""

    def _as_displayed(self, text: bytes) -> tuple[bytes, bytes]:
        """The complete lines as a terminal would leave them, and the rest.

        A carriage return restarts the line: of a progress bar only the last state counts, and every 5 s the
        current one.
        """
        *whole, rest = text.replace(b"\r\n", b"\n").split(b"\n")
        lines = [line.rstrip(b"\r").rpartition(b"\r")[2] for line in whole]
        body = rest.rstrip(b"\r")
        *overwritten, state = body.split(b"\r")
        now = time.monotonic()
        if any(overwritten) and now - self._progress_shown >= PROGRESS_SECONDS:
            self._progress_shown = now
            lines.append(next(filter(None, reversed(overwritten))))
        ending = b"\r" if rest.endswith(b"\r") else b""  # it may be the beginning of \r\n
        return b"".join(line + b"\n" for line in lines), state + ending

    def _print_rest(self) -> None:
        rest = self._partial.rstrip(b"\r").rpartition(b"\r")[2]
        self._partial = b""
        if rest and self.shown:
            self._emit(rest, b"\n")

    def _emit(self, begun: bytes, lines: bytes) -> None:
        """Prints what an earlier read began, and the lines that end it and follow."""
        rest = lines[:-1].replace(b"\n", b"\n" + self._prefix)
        self._journal.console.write(b"".join((self._prefix, begun, rest, b"\n")))


def _new_log(path: Path) -> BinaryIO:
    """Creates the file; an earlier attempt's file gets a number: `x.txt` becomes `x.1.txt`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        keep_earlier(path)
        return path.open("wb")  # it is written by its descriptor, without a buffer
    except OSError as error:
        raise CannotCreate(Message.of("cannot create the log file {}: {}", path, error.strerror)) from error


class OutputPump:
    """Reads several outputs; its descriptor is readable when one of them is.

    After `quiet_bytes` on the console only the first output is shown, after `silent_bytes` none. The log
    files always get everything.
    """

    def __init__(self, journal: Journal, inbox: SignalInbox, quiet_bytes: int, silent_bytes: int) -> None:
        self._journal = journal
        self._console = journal.console
        self._outputs: list[WorkerOutput] = []
        self._epoll = selectors.EpollSelector()
        self._read_again = 0.0
        self._thresholds = [silent_bytes, quiet_bytes]
        self._console.room_again = journal.logs.room_again = inbox.wake

    def __enter__(self) -> OutputPump:
        return self

    def __exit__(self, *exc: object) -> None:
        self._console.room_again = self._journal.logs.room_again = lambda: None
        self._epoll.close()
        if self._console.dropped_lines:
            self._journal.event("dropped", lines=self._console.dropped_lines)

    def fileno(self) -> int:
        """The descriptor of all outputs, for a selector."""
        return self._epoll.fileno()

    def add(self, output: WorkerOutput) -> None:
        """Reads this one, too."""
        self._outputs.append(output)
        self._epoll.register(output, selectors.EVENT_READ, output)

    def pause(self) -> float:
        """Seconds for which the output should stay in the pipes; 0 to read it now.

        It stays while console or log files have no room, and for a moment after each read, so that the output
        of processes that print at full speed is read in large pieces.
        """
        room = self._console.pause() or self._journal.logs.pause()
        return room or max(0.0, self._read_again - time.monotonic())

    def pump(self) -> None:
        """Reads each output, as far as there is any, and no more of it than a pipe holds."""
        for key, _ in self._epoll.select(0):
            more: bool | None = True
            for _ in range(READS):
                more = more and key.data.pump()
            if more is None:
                self._epoll.unregister(key.fileobj)
        self._read_again = time.monotonic() + PAUSE_SECONDS
        if self._thresholds and self._console.accepted >= self._thresholds[-1]:
            self._hide(self._thresholds.pop())

    def _hide(self, size: int) -> None:
        """ModelArts collects 1 GiB of output, and then nothing more: not even the report at the end."""
        shown = [output for output in self._outputs if output.shown]
        for output in shown[1:] if self._thresholds else shown:
            output.hide()
        who = "all processes but the first" if self._thresholds else "all processes"
        self._journal.say(
            f"{size >> 20} MiB of output: {who} now print to their log files only (ModelArts collects 1 GiB)"
        )
