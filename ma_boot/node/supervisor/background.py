"""Processes that a command has left in the background when it ended with 0."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from ma_boot.node.scripts.job_processes import JobProcesses, read_left
from ma_boot.node.scripts.leftovers import LEFT_SECONDS, LOOK_SECONDS, LeftState
from ma_boot.node.scripts.script_rank import Process
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.orphan_guard import process_stats
from ma_boot.report.journal import Journal
from ma_boot.report.result import STOP_CODES
from ma_boot.wording import Message, list_first

# Seconds after the end of a script in which a signal to its children may have come from it.
BY_SCRIPT_SECONDS = 1.0
# Processes in a line.
MOST_NAMED = 4


class Background:
    """Processes of an ended command: the job waits for ranks and trainings among them (see `leftovers`).

    Of a command that runs once per node these are all processes that carry `marker`, of a rank those in its
    process group.
    """

    def __init__(self, worker: Worker, marker: str, journal: Journal) -> None:
        """Records the children of the command that ma_boot has just adopted."""
        self.worker = worker
        self._journal = journal
        environ = worker.spec.environ
        self._processes = JobProcesses(marker, environ)
        places = (worker.spec.cwd, os.path.dirname(worker.spec.log_file))
        of_job = (environ.get("HOME", ""), environ.get("MA_JOB_DIR", ""))
        now = time.monotonic()
        self._state = LeftState(now, (*places, *of_job))
        # Parent and process group; also of children that have ended, whose environment cannot be read.
        own = (str(os.getpid()), str(worker.pid))
        self._started = {pid for pid, stat in process_stats().items() if (stat[1], stat[2]) == own}
        self._started.update(process.pid for process in self._members() if process.parent == os.getpid())
        self._next_look = now
        # True once the wait has been reported.
        self.announced = False

    def patience(self) -> float:
        """Returns the seconds until `is_over` should be called, unless a process ends."""
        return max(0.0, self._next_look - time.monotonic())

    def failure(self, reaped: Iterable[tuple[int, int]]) -> int | None:
        """Returns the exit code of the command's first failed child in `reaped` (pids and exit codes).

        A script may kill a monitor as its last act, and end before it has reaped that.
        """
        by_script = STOP_CODES if time.monotonic() < self._state.began + BY_SCRIPT_SECONDS else ()
        failed = (code for pid, code in reaped if pid in self._started and code not in (0, *by_script))
        return next(failed, None)

    def is_over(self, has_ended: bool) -> bool:
        """Returns True once no process is left that is worth a wait; announces the wait.

        Looks at the processes if that is due, or if one of them has ended.
        """
        now = time.monotonic()
        if now >= self._next_look or has_ended:
            members, output = self._members(), self.worker.output
            found = [read_left(process, output.fileno(), output.last_output) for process in members]
            self._state = self._state.after_look(found, now)
            is_first = now < self._state.began + LEFT_SECONDS
            self._next_look = self._state.began + LEFT_SECONDS if is_first else now + LOOK_SECONDS
            self._announce()
        return self._state.is_over(now) and not (self.worker.is_held and self._state.latest)

    def _announce(self) -> None:
        if self._state.awaited and not self.announced:
            self.announced = True
            named = list_first([str(left) for left in self._state.awaited], MOST_NAMED)
            text = "{} has ended with 0; waiting for the processes that it left in the background: {}"
            self._journal.say(Message.of(text, self.worker.spec.label, named))

    def _members(self) -> list[Process]:
        processes = self._processes.look()
        if self.worker.spec.rank is None:
            return [process for process in processes if process.pid != self.worker.pid]
        return [process for process in processes if process.group == self.worker.pid]
