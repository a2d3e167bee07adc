"""The output of all processes: read at the console's pace, and kept below what the platform collects."""

from __future__ import annotations

import selectors
import time
from typing import List

from ma_boot.processes import SignalInbox
from ma_boot.reporting import Journal
from ma_boot.supervisor.worker_output import WorkerOutput

PAUSE_SECONDS = 0.002  # after each read: the pipes hold what is printed meanwhile


class OutputPump:
    """Reads several outputs; its descriptor is readable when one of them is.

    After `quiet_bytes` on the console only the first output is shown, after `silent_bytes` none. The log
    files always get everything.
    """

    def __init__(self, journal: Journal, inbox: SignalInbox, quiet_bytes: int, silent_bytes: int) -> None:
        self._journal = journal
        self._console = journal.console
        self._outputs: List[WorkerOutput] = []
        self._epoll = selectors.EpollSelector()
        self._read_again = 0.0
        self._thresholds = [silent_bytes, quiet_bytes]
        self._console.room_again = inbox.wake

    def __enter__(self) -> OutputPump:
        return self

    def __exit__(self, *exc: object) -> None:
        self._console.room_again = lambda: None
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

        It stays while the console has no room, and for a moment after each read, so that the output of
        processes that print at full speed is read in large pieces.
        """
        return self._console.pause() or max(0.0, self._read_again - time.monotonic())

    def pump(self) -> None:
        """Reads each output once, as far as there is any."""
        for key, _ in self._epoll.select(0):
            if key.data.pump() is None:
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
