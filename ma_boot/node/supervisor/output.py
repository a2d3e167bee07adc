"""Output of the workers: raw bytes to their log files, whole lines with a prefix to the console."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import selectors
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Callable

from ma_boot.errors import CannotCreate
from ma_boot.node.launch.launch_plan import WorkerSpec
from ma_boot.node.supervisor.console_lines import ConsoleLines
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.explain import TRACEBACK
from ma_boot.report.files import keep_earlier
from ma_boot.report.journal import Journal
from ma_boot.report.log_writer import LogFile
from ma_boot.wording import Message

if TYPE_CHECKING:
    from ma_boot.node.supervisor.traceback_folds import RankTracebacks, TracebackFolds

# Bytes of one read. Larger pieces do not stay in the CPU's cache: each byte takes ten times as long.
READ_BYTES = 1 << 18
# Reads of one output in a row, before it is the turn of the next one: together the size of a pipe.
READS = 4
PIPE_BYTES = 1 << 20
# Seconds after each read of all outputs, so that output at full speed is read in large pieces. The pipes hold
# it meanwhile.
PAUSE_SECONDS = 0.002
# Reads that empty the largest pipe (1 MiB) even if each returns less than READ_BYTES.
PIPE_READS = 32
# Bytes of a worker's last output for reports.
TAIL_BYTES = 1 << 16
_TRACEBACK = TRACEBACK.encode()
# linux/fcntl.h; Python has the name since 3.10.
_F_SETPIPE_SZ = 1031


class OutputTail:
    """Last 64 KiB of an output, the number of all its bytes, and `updated_at` in monotonic seconds.

    One thread adds output; any thread may read.
    """

    def __init__(self) -> None:
        self.updated_at = time.monotonic()
        self._lock = threading.Lock()
        self._bytes = bytearray()
        self._received = 0

    def add(self, data: bytes) -> None:
        """Appends output."""
        with self._lock:
            self.updated_at = time.monotonic()
            self._received += len(data)
            self._bytes += data[-TAIL_BYTES:]
            # Cut only at twice the size: each cut copies the rest.
            if len(self._bytes) > 2 * TAIL_BYTES:
                del self._bytes[:-TAIL_BYTES]

    def text(self) -> str:
        """Returns the last 64 KiB as text."""
        return self._bytes[-TAIL_BYTES:].decode("utf-8", "replace")

    def since(self, position: int) -> tuple[int, bytes, float]:
        """Returns the number of all bytes, the last 64 KiB of those after `position`, and `updated_at`."""
        with self._lock:
            new = min(self._received - position, TAIL_BYTES)
            return self._received, bytes(self._bytes[len(self._bytes) - new :]), self.updated_at


class WorkerOutput:
    """Pipe of a worker; reading never blocks, and neither the output nor a full disk makes it fail.

    `shown` is True while the console gets the output; the log file always gets it, byte for byte. `folds`
    returns the tracebacks of all ranks, None if those of this output are always printed.
    """

    def __init__(self, source: BinaryIO, spec: WorkerSpec, journal: Journal) -> None:
        """Creates the log file.

        Raises:
            CannotCreate: the log file cannot be created.
        """
        self.shown = spec.shown
        self.folds: Callable[[], TracebackFolds] | None = None
        self._source = source
        self._spec = spec
        self._journal = journal
        self._is_silent = True
        self._tail = OutputTail()
        self._tracebacks: RankTracebacks | None = None
        self._lines = ConsoleLines(f"[{spec.label}] ".encode(), self._print)
        os.set_blocking(source.fileno(), False)
        # Beyond this user's limit (pipe(7)) the pipe keeps its 64 KiB.
        with contextlib.suppress(OSError):
            fcntl.fcntl(source.fileno(), _F_SETPIPE_SZ, PIPE_BYTES)
        where = f"{spec.label}: its log file is incomplete from here on: {spec.log_file}"
        self._log = LogFile(_new_log(Path(spec.log_file)), lambda reason: journal.warn(f"{where}: {reason}"))

    @property
    def last_output(self) -> float:
        """Time of the last output, or of the start if there is none, in monotonic seconds."""
        return self._tail.updated_at

    @property
    def rank(self) -> int | None:
        """The rank whose output it is; None for a command."""
        return self._spec.rank

    @property
    def lost(self) -> int:
        """Bytes missing in the log file so far."""
        return self._log.lost

    def fileno(self) -> int:
        """Returns the read end of the pipe, for a selector."""
        return self._source.fileno()

    def pump(self) -> bool | None:
        """Reads once; returns True for output, False if there is none now, None at the end of file."""
        try:
            data = os.read(self._source.fileno(), READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            return None
        if self._is_silent:
            self._is_silent = False
            self._journal.event(
                "first-output", label=self._spec.label, rank=self._spec.rank, first_ns=time.monotonic_ns()
            )
        self._journal.logs.append(self._log, data)
        self._tail.add(data)
        if self.shown:
            self._lines.add(data)
        return True

    def take(self) -> None:
        """Empties the pipe, without waiting for processes that hold its other end."""
        # Bounded, because a grandchild may write forever.
        for _ in range(PIPE_READS):
            if not self.pump():
                return

    def tail(self) -> str:
        """Returns the last 64 KiB of the output, for the report."""
        return self._tail.text()

    def since(self, position: int) -> tuple[int, bytes, float]:
        """Returns the number of all bytes, the last 64 KiB of those after `position`, and `last_output`.

        Any thread may call it: it does not read the pipe, and delays the reader only for the time of a copy.
        """
        return self._tail.since(position)

    def hide(self) -> None:
        """Prints the begun line, and no more output on the console."""
        self._end_line()
        self.shown = False

    def close(self) -> None:
        """Reads and prints the rest, including a last line without a newline, and closes pipe and file."""
        self.take()
        self._end_line()
        self._source.close()
        self._journal.logs.close(self._log)

    def _end_line(self) -> None:
        if self.shown:
            self._lines.end()
        if self._tracebacks is not None:
            self._tracebacks.end()

    def _print(self, lines: bytes) -> None:
        """Prints lines; those of a traceback only if no other rank of the node has printed the same."""
        has_traceback = _TRACEBACK in lines
        if self._tracebacks is None and self.folds is not None and has_traceback:
            self._tracebacks = self.folds().of_rank(self._spec)
        if self._tracebacks is None or (self._tracebacks.is_idle and not has_traceback):
            self._journal.console.write(lines)
        else:
            self._tracebacks.write(lines)


def _new_log(path: Path) -> BinaryIO:
    """Creates the log file; renames one of an earlier attempt: `x.txt` becomes `x.1.txt`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        keep_earlier(path)
        # Only its descriptor is used, so nothing stays in the buffer.
        return path.open("wb")
    except OSError as error:
        raise CannotCreate(Message.of("cannot create the log file {}: {}", path, error.strerror)) from error


class OutputPump:
    """Reader of several outputs; its descriptor is readable when one of them is.

    After `quiet_bytes` on the console only the first output is shown, after `silent_bytes` none. The log
    files always get all output.
    """

    def __init__(self, journal: Journal, inbox: SignalInbox, quiet_bytes: int, silent_bytes: int) -> None:
        self._journal = journal
        self._console = journal.console
        self._outputs: list[WorkerOutput] = []
        self._epoll = selectors.EpollSelector()
        self._read_again = 0.0
        self._thresholds = [silent_bytes, quiet_bytes]
        self._folds: TracebackFolds | None = None
        self._console.room_again = journal.logs.room_again = inbox.wake

    def __enter__(self) -> OutputPump:
        return self

    def __exit__(self, *exc: object) -> None:
        self._console.room_again = self._journal.logs.room_again = lambda: None
        self._epoll.close()
        if self._folds is not None:
            self._folds.pass_time(is_over=True)
        if self._console.dropped_lines:
            self._journal.event("dropped", lines=self._console.dropped_lines)

    def fileno(self) -> int:
        """Returns the descriptor of all outputs, for a selector."""
        return self._epoll.fileno()

    def add(self, output: WorkerOutput) -> None:
        """Starts to read this output, too."""
        self._outputs.append(output)
        if output.rank is not None:
            output.folds = self._folds_of_node
        self._epoll.register(output, selectors.EVENT_READ, output)

    def pause(self) -> float:
        """Returns the seconds until output should be read; 0 to read it now.

        It stays in the pipes while console or log files are full, and for PAUSE_SECONDS after each read.
        """
        room = self._console.pause() or self._journal.logs.pause()
        return room or max(0.0, self._read_again - time.monotonic())

    def patience(self) -> float:
        """Returns the seconds until `print_held` has something to print."""
        return math.inf if self._folds is None else self._folds.patience()

    def print_held(self) -> None:
        """Prints tracebacks that were held long enough, and the ranks with the same ones."""
        if self._folds is not None:
            self._folds.pass_time()

    def pump(self) -> None:
        """Reads each output that has any, at most as much as a pipe holds."""
        for key, _ in self._epoll.select(0):
            more: bool | None = True
            for _ in range(READS):
                more = more and key.data.pump()
            if more is None:
                self._epoll.unregister(key.fileobj)
        self._read_again = time.monotonic() + PAUSE_SECONDS
        if self._thresholds and self._console.accepted >= self._thresholds[-1]:
            self._hide(self._thresholds.pop())

    def _folds_of_node(self) -> TracebackFolds:
        """Returns the tracebacks of the ranks; imported for the first one only, as most jobs have none."""
        if self._folds is None:
            from ma_boot.node.supervisor.traceback_folds import TracebackFolds

            self._folds = TracebackFolds(self._journal)
        return self._folds

    def _hide(self, size: int) -> None:
        """Hides outputs from the console and logs why.

        ModelArts collects only the first GiB of output, which must have room for the report at the end.
        """
        shown = [output for output in self._outputs if output.shown]
        for output in shown[1:] if self._thresholds else shown:
            output.hide()
        hidden = "all processes but the first" if self._thresholds else "all processes"
        self._journal.say(
            f"{size >> 20} MiB of output: {hidden} now print to their log files only "
            "(ModelArts collects 1 GiB)"
        )
