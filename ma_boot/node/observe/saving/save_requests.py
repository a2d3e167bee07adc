"""Requests for checkpoints to the training: by the user's file `save`, or before the job's time is over.

user's file, time limit            ranks: should_save() counts its calls,
          |                        waits at a call in doubt, returns True or False
          v                                        ^
SaveRequests, a turn each second  <-- SaveFile, under a lock: highest call -->
          |                                                 <-- answers ------
          |-- SaveState: request, announcement         (pure)
          |     `- SaveAgreement: one call for all nodes  (pure)
          v
messages `save` to the peers, line and event `save`
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ma_boot.node.observe.peers import Peers
from ma_boot.node.observe.saving import save_state
from ma_boot.node.observe.saving.save_agreement import SaveAgreement, bodies
from ma_boot.node.observe.saving.save_file import SaveFile
from ma_boot.node.observe.saving.save_state import Announcement, SaveRequest, SaveState, due_before
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.task import Task
from ma_boot.report.journal import Journal
from ma_boot.wording import duration

# Name of the user's file in the directory of the logs; it is removed once it is answered.
REQUEST_FILE = "save"
# Seconds; max. wait for the thread, as a network disk may block it forever.
CLOSE_SECONDS = 0.5


class SaveOptions(NamedTuple):
    """The directory of the logs, and the time limit of the job in seconds since the start of this process.

    A limit of 0 is none. Node 0 watches it for all nodes.
    """

    logs: str
    time_limit: float


class SaveRequests:
    """Observer of one attempt that asks the ranks for checkpoints, once all nodes have agreed on a call.

    `agreement` is new with each attempt. A request that an attempt does not fulfil is made again in the next.
    """

    without = "the ranks are no longer asked for checkpoints"

    def __init__(
        self,
        options: SaveOptions,
        agreement: SaveAgreement,
        peers: Peers,
        *,
        inbox: SignalInbox,
        journal: Journal,
    ) -> None:
        self._file = SaveFile()
        self._request_file = Path(options.logs, REQUEST_FILE)
        self._time_limit = options.time_limit
        self._peers = peers
        self._journal = journal
        due = math.inf if agreement.node else due_before(options.time_limit)
        self._state = SaveState(agreement, due)
        self._task = Task("save requests", self._follow, inbox)

    @property
    def path(self) -> str:
        """The path of the file for the ranks (`MABOOT_SAVE_FILE`)."""
        return self._file.path

    def patience(self) -> float:
        """Infinity: the requests have a thread of their own, as the user's file may be on a slow disk."""
        return math.inf

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Returns no reason to stop the processes."""
        return ""

    def close(self) -> None:
        """Ends the requests, once no rank runs any more."""
        self._task.cancel()
        self._task.wait(lambda: None, time.monotonic() + CLOSE_SECONDS)
        self._file.remove()

    def _follow(self, cancel: threading.Event) -> None:
        # After an error the file for the ranks stays: other nodes give the answers that are in it.
        with self._journal.best_effort(self.without):
            while not cancel.wait(save_state.POLL_SECONDS):
                self._poll()

    def _poll(self) -> None:
        request, messages = self._request(), self._peers.heard_of_saves()

        def decide(highest: int) -> Sequence[int]:
            self._state = self._state.after(request, messages, highest, time.monotonic())
            return self._state.agreement.answers

        self._file.update(decide)
        agreement = self._state.agreement
        # Without a connection the messages of each turn would pile up; the next turns repeat them.
        if not (agreement.node and self._peers.unreached):
            for body in bodies(agreement):
                self._peers.tell("save", body)
        if self._state.announcement is not None:
            self._report(self._state.announcement)
        if self._state.removes_file:
            # A file that cannot be removed is not answered a second time.
            with suppress(OSError):
                self._request_file.unlink(missing_ok=True)
                self._state = self._state.file_gone()

    def _request(self) -> SaveRequest:
        """The request that is open now; the file comes first."""
        if not self._state.file_call and self._request_file.exists():
            return SaveRequest(f"{self._request_file} asks for a checkpoint", by_file=True)
        if _seconds_since_start() >= self._state.due:
            limit = duration(self._time_limit)
            return SaveRequest(f"the job's time ends {limit} after its start (MABOOT_TIME_LIMIT)")
        return SaveRequest()

    def _report(self, found: Announcement) -> None:
        self._journal.event("save", call=found.call, reason=found.reason or found.text)
        self._journal.say(f"{found.reason}: {found.text}" if found.reason else found.text)


def _seconds_since_start() -> float:
    """Returns the age of this process, which is that of the container unless it was started by hand."""
    # Field 22 of proc(5): ticks from the boot of the machine to the start of the process.
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
