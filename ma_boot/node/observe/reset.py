"""Follows MindCluster's `reset.json`: it holds starts back, ends the node, or has processes start anew."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from ma_boot.errors import RankTableTimeout
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.platform.modelarts.job import JobEnvironment
from ma_boot.platform.recognition.mindcluster import RESET_FILE, Reset, parse_reset
from ma_boot.processes.control_group import file_text
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.task import REMIND_SECONDS, Task
from ma_boot.report.journal import Journal

POLL_SECONDS = 1.0
MOST_BYTES = 1 << 20  # as for MindCluster's own reader
RESCHEDULED = "podReschedule"  # in the file restartType beside reset.json: other pods are replaced


class ResetWatch:
    """The file as it is now, and what it asked for while the processes ran; an `Observer` of each run.

    An end that is asked for is a SIGTERM to this process: the outputs go home as after any stop. `ranks` are
    those of this node; `timeout` is in seconds.
    """

    without = "the reset file is no longer followed"

    def __init__(
        self,
        file: Path,
        table: str | None,
        ranks: Collection[int],
        timeout: float,
        inbox: SignalInbox,
        journal: Journal,
    ) -> None:
        self._file = file
        self._table_version = Path(table).with_name("version") if table else None
        self._ranks = ranks
        self._timeout = timeout
        self._inbox = inbox
        self._journal = journal
        self._state = Reset()
        self._before = Reset()  # when the processes were started
        self._version = 0
        self.reason = ""
        self._task: Task[None] | None = None

    def start(self) -> None:
        """Returns once processes may start, also anew, and follows the file from then on.

        Raises `RankTableTimeout` after the timeout, and `Stopped`.
        """
        self._wait()
        if self._task is None:
            self._task = Task("reset file", self._follow, self._inbox)

    def patience(self) -> float:
        """Forever: a change of the file wakes the inbox."""
        return math.inf

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Returns why the running processes have to start again; empty if they may run."""
        return self.reason

    def close(self) -> None:
        """The file is followed on: it may ask for something before the next run."""

    def end(self) -> None:
        """Follows the file no more."""
        if self._task is not None:
            self._task.cancel()

    def _wait(self) -> None:
        started = time.monotonic()
        announced, announced_at = "", started
        while True:
            self._inbox.check()
            self._read()
            reason = self._state.closed_to(self._ranks) or self._same_table()
            now = time.monotonic()
            if not reason:
                break
            if now - started >= self._timeout:
                raise RankTableTimeout(
                    f"{self._file}: {reason}, for {self._timeout:.0f} s (--rank-table-timeout): see the "
                    "events of the job and of its pods"
                )
            if reason != announced or now - announced_at >= REMIND_SECONDS:
                self._journal.say(f"waiting for {self._file}: {reason} ({now - started:.0f} s)")
                announced, announced_at = reason, now
            self._inbox.wait(min(POLL_SECONDS, self._timeout))
        self._before, self._version, self.reason = self._state, self._table_round(), ""

    def _follow(self, cancel: threading.Event) -> None:
        while not cancel.wait(POLL_SECONDS):
            self._read()
            ends = self._state.ends(self._ranks, self._before)
            if ends:
                self._journal.event("reset", reason=ends)
                self._journal.say(f"{self._file}: {ends}; ending this node as after SIGTERM")
                os.kill(os.getpid(), signal.SIGTERM)
                return
            reason = self._state.restarts(self._before)
            if reason and not self.reason:
                self.reason = reason
                self._inbox.wake()

    def _read(self) -> None:
        """The newest whole state: the file is written in place, and may be missing or torn."""
        try:
            with open(self._file, encoding="utf-8", errors="replace") as file:
                self._state = parse_reset(file.read(MOST_BYTES)) or self._state
        except OSError:  # removed or not there yet: nothing is asked for
            self._state = Reset(round=self._state.round)

    def _same_table(self) -> str:
        """Returns why the rank table on the disk is still that of the replaced pods; empty if it is new."""
        if not self.reason or not self._version:
            return ""
        if file_text(self._file.with_name("restartType")).strip() != RESCHEDULED:
            return ""
        return "" if self._table_round() > self._version else "the rank table still names the replaced pods"

    def _table_round(self) -> int:
        """Grows with each table that MindCluster writes; 0 where it is not told."""
        text = file_text(self._table_version).strip() if self._table_version else ""
        return int(text) if text.isdecimal() else 0


def reset_watch(
    given: str | None,
    job: JobEnvironment,
    ranks: Collection[int],
    timeout: float,
    inbox: SignalInbox,
    journal: Journal,
) -> ResetWatch | None:
    """Returns the watch on the file, `given` by the user or MindCluster's; None without a file."""
    on_mindcluster = job.platform.name == "mindcluster"
    if given is None and not (on_mindcluster and os.path.isdir(os.path.dirname(RESET_FILE))):
        return None
    return ResetWatch(Path(given or RESET_FILE), job.place.table, ranks, timeout, inbox, journal)
