"""Asks the training for a checkpoint: before the job's time is over, or because somebody wants one now."""

from __future__ import annotations

import fcntl
import math
import os
import struct
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Iterator, Sequence, Tuple

from ma_boot.processes import SignalInbox, Task
from ma_boot.reporting import Journal
from ma_boot.supervisor import Worker
from ma_boot.wording import duration

NUMBER = struct.Struct("<q")  # as `ma_boot.training.save_request` has it
POLL_SECONDS = 1.0
WANTED = "save"  # the file in the directory of the logs that asks for a checkpoint; it is removed
MARGIN_SECONDS = 600.0  # before the time limit, at most a tenth of it


class SaveRequests:
    """Asks the ranks of a job of one node, by a file that `should_save` reads; an `Observer` of one attempt.

    `logs` is the directory of the logs, `time_limit` the job's, in seconds since the start of this process;
    0: none. What an attempt has not saved before its end is asked again in the next one.
    """

    without = "the ranks are no longer asked for checkpoints"

    def __init__(self, logs: str, time_limit: float, inbox: SignalInbox, journal: Journal) -> None:
        descriptor, self.path = tempfile.mkstemp(prefix="ma_boot-save-")
        os.write(descriptor, NUMBER.pack(0))
        os.close(descriptor)
        self._wanted = os.path.join(logs, WANTED)
        self._limit = time_limit
        self._due = time_limit - min(MARGIN_SECONDS, time_limit / 10) if time_limit else math.inf
        self._journal = journal
        self._unheard = False
        self._task = Task("save requests", self._follow, inbox)

    def patience(self) -> float:
        """Forever: a thread follows the clock and the file, which may be on a slow disk."""
        return math.inf

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Nothing stops the processes."""
        return ""

    def close(self) -> None:
        """Asks no more."""
        self._task.cancel()
        with suppress(OSError):
            os.unlink(self.path)

    def _follow(self, cancel: threading.Event) -> None:
        by_file = 0  # the call that is asked for the file
        while not cancel.wait(POLL_SECONDS):
            if os.path.exists(self._wanted):
                by_file = by_file or self._ask(f"{self._wanted} asks for a checkpoint")
                if by_file and self._is_made(by_file):
                    os.unlink(self._wanted)
                    by_file = 0
            if _seconds_since_start() >= self._due:
                limit = f"the job's time ends {duration(self._limit)} after its start (MABOOT_TIME_LIMIT)"
                self._due = math.inf if self._ask(limit) else self._due

    def _ask(self, reason: str) -> int:
        """Asks for a checkpoint at a call that no rank has made yet; 0 if none has made any."""
        with self._calls() as (file, highest):
            if highest:
                file.write(NUMBER.pack(highest + 1))
        call = highest + 1 if highest else 0
        if call or not self._unheard:
            self._unheard = not call
            self._journal.event("save", call=call, reason=reason)
            what = f"the ranks are asked to save at their step {call}"
            without = "no rank has called ma_boot.training.should_save() yet"
            self._journal.say(f"{reason}: {what if call else without}")
        return call

    def _is_made(self, call: int) -> bool:
        with self._calls() as (_, highest):
            return highest >= call

    @contextmanager
    def _calls(self) -> Iterator[Tuple[FileIO, int]]:
        """The file at its end, and the highest call; no rank uses it meanwhile."""
        with FileIO(self.path, "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file, NUMBER.unpack_from(file.read())[0]


def _seconds_since_start() -> float:
    """How long this process has been running."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
