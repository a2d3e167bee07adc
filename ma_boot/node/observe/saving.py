"""Asks the training for a checkpoint: before the job's time is over, or because somebody wants one now."""

from __future__ import annotations

import fcntl
import math
import os
import struct
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ma_boot.node.observe.peers import Peers
from ma_boot.node.observe.save_agreement import AHEAD_SECONDS, ASK_SECONDS, SaveAgreement, bodies
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.task import Task
from ma_boot.report.journal import Journal
from ma_boot.wording import duration

NUMBER = struct.Struct("<q")  # as `ma_boot.training.save_request` has it
POLL_SECONDS = 1.0
WANTED = "save"  # the file in the directory of the logs that asks for a checkpoint; it is removed
CLOSE_SECONDS = 0.5  # for a disk that does not answer
MARGIN_SECONDS = 600.0  # before the time limit, at most a tenth of it
# Of a limit below 200 s a tenth is too late: several nodes save at a step that is up to AHEAD_SECONDS later,
# and their agreement and the save take time, too.
LEAST_MARGIN_SECONDS = 2 * AHEAD_SECONDS
MOST_OF_LIMIT = 2 / 3  # that the margin takes: a step is ahead by no longer than the ranks have been running


class SaveOptions(NamedTuple):
    """What asks for a checkpoint: a file in the directory of the logs; the time limit of the job.

    That is in seconds since the start of this process, 0 for none. Node 0 watches it for all nodes.
    """

    logs: str
    time_limit: float

    @property
    def due(self) -> float:
        """When the time limit asks, in the same seconds."""
        if not self.time_limit:
            return math.inf
        least = min(LEAST_MARGIN_SECONDS, self.time_limit * MOST_OF_LIMIT)
        return self.time_limit - max(least, min(MARGIN_SECONDS, self.time_limit / 10))


class SaveRequests:
    """Asks the ranks, by a file that `should_save` reads, once all nodes agree; an `Observer` of one attempt.

    `agreement` is new with each attempt. What an attempt has not saved before its end is asked again in the
    next one.
    """

    without = "the ranks are no longer asked for checkpoints"

    def __init__(
        self,
        options: SaveOptions,
        agreement: SaveAgreement,
        peers: Peers,
        inbox: SignalInbox,
        journal: Journal,
    ) -> None:
        descriptor, self.path = tempfile.mkstemp(prefix="ma_boot-save-")
        os.write(descriptor, NUMBER.pack(0))
        os.close(descriptor)
        self._wanted = os.path.join(options.logs, WANTED)
        self._limit, self._due = options.time_limit, math.inf if agreement.node else options.due
        self._agreement, self._peers, self._journal = agreement, peers, journal
        self._by_file = 0  # the call that is asked for the file
        self._reported = ""  # why no rank is asked
        self._calls: deque[int] = deque(maxlen=round(AHEAD_SECONDS / POLL_SECONDS))  # the highest by then
        self._task = Task("save requests", self._follow, inbox)

    def patience(self) -> float:
        """Forever: a thread follows the clock, the file, which may be on a slow disk, and the other nodes."""
        return math.inf

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Nothing stops the processes."""
        return ""

    def close(self) -> None:
        """Asks no more; no rank runs."""
        self._task.cancel()
        self._task.wait(lambda: None, time.monotonic() + CLOSE_SECONDS)
        with suppress(OSError):
            os.unlink(self.path)

    def _follow(self, cancel: threading.Event) -> None:
        with self._journal.best_effort(self.without):  # the file stays: it has answers that other nodes give
            while not cancel.wait(POLL_SECONDS):
                self._poll()

    def _poll(self) -> None:
        """One turn, with what is told, said and removed after it."""
        is_by_file = not self._by_file and os.path.exists(self._wanted)
        reason = self._reason(is_by_file)
        before, highest = self._agreement.saves, self._turn(bool(reason))
        state = self._agreement
        if not (state.node and self._peers.unreached):  # what waits to be sent must not get longer
            for body in bodies(state):
                self._peers.tell("save", body)
        self._report(reason, before, highest)
        if reason and state.wanted_at is None:
            self._by_file = state.saves[-1] if is_by_file else self._by_file
            self._due = self._due if is_by_file else math.inf
        if 0 < self._by_file <= highest:
            with suppress(OSError):  # then it asks no more, as it cannot ask again
                Path(self._wanted).unlink(missing_ok=True)
                self._by_file = 0

    def _reason(self, is_by_file: bool) -> str:
        """Why this node wants a checkpoint; empty if it wants none."""
        if is_by_file:
            return f"{self._wanted} asks for a checkpoint"
        if _seconds_since_start() >= self._due:
            return f"the job's time ends {duration(self._limit)} after its start (MABOOT_TIME_LIMIT)"
        return ""

    def _turn(self, is_wanted: bool) -> int:
        """What follows from all that is known by now, which the ranks can read then; the highest call."""
        messages = self._peers.heard_of_saves()
        with open(self.path, "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # no rank makes a call meanwhile
            (highest,) = NUMBER.unpack_from(file.read())
            self._calls.append(highest)
            ahead = highest - self._calls[0] if self._agreement.nodes > 1 else 0
            soonest = highest + ahead + 1
            state = self._agreement._replace(messages=frozenset())
            state = state.wanted(highest) if is_wanted else state
            for message in messages:
                state = state.received(message.node, message.body, highest, soonest)
            state = state.turn(highest, soonest, time.monotonic())
            if state.answers != self._agreement.answers:
                answers = b"".join(map(NUMBER.pack, state.answers))
                os.pwrite(file.fileno(), answers, NUMBER.size)
                file.truncate(NUMBER.size + len(answers))
        self._agreement = state
        return int(highest)

    def _report(self, reason: str, before: Sequence[int], highest: int) -> None:
        """Says which call is asked, or why none is; that once."""
        state, problem = self._agreement, self._problem(reason, highest)
        if state.saves != before:
            self._reported, call = "", state.saves[-1]
            reason = reason or f"{'node 0' if state.node else 'another node'} asks for a checkpoint"
            what = f"the ranks are asked to save at their step {call}"
        elif problem and problem != self._reported:
            self._reported, call, what = problem, 0, problem
        else:
            return
        self._journal.event("save", call=call, reason=reason or what)
        self._journal.say(f"{reason}: {what}" if reason else what)

    def _problem(self, reason: str, highest: int) -> str:
        """Why no rank is asked, or why one waits; empty as long as all goes well."""
        state, first = self._agreement, self._calls[0]
        if state.asked and state.asked == first and len(self._calls) == self._calls.maxlen:
            return f"ranks wait at their step {first} until node 0 says whether all nodes save there"
        if state.silent >= 0:
            return f"node {state.silent} has not answered in {ASK_SECONDS:.0f} s: no rank is asked to save"
        if reason and not highest:
            return "no rank has called ma_boot.training.should_save() yet"
        return ""


def _seconds_since_start() -> float:
    """How long this process has been running."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
