"""Detects processes that neither print nor use CPU time, and gets their stacks."""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ma_boot.errors import described
from ma_boot.processes import SignalInbox, Task, process_stats
from ma_boot.reporting import Journal
from ma_boot.supervisor.worker import Worker

CHECKS = 8  # within the timeout
LONGEST_INTERVAL = 30.0  # seconds
IDLE_SHARE = 0.05  # of a core: a process that only polls, 100 times a second, stays below on a slow machine
UNSURE_TICKS = 2  # the kernel counts CPU time in whole ticks, that of the program and that of its calls apart
PY_SPY_SECONDS = 20.0
_TICK = 1 / os.sysconf("SC_CLK_TCK")  # seconds
_SIGUSR1_BIT = 1 << (signal.SIGUSR1 - 1)


class LastActivity(NamedTuple):
    """When a worker was last active (monotonic, seconds), and the CPU seconds of its `CpuMeter` by then."""

    when: float
    cpu: float

    def updated(self, now: float, cpu: float, heard: float) -> LastActivity:
        """The activity by now, from the CPU seconds and the time of the last output (`heard`)."""
        if cpu - self.cpu - UNSURE_TICKS * _TICK > IDLE_SHARE * (now - self.when):
            return LastActivity(now, cpu)
        return LastActivity(heard, cpu) if heard > self.when else self


class ProcessTimes(NamedTuple):
    """A process: parent, session, start time, and CPU seconds with those of the children it has reaped."""

    parent: int
    session: int
    started: str
    cpu: float


class CpuMeter:
    """The CPU seconds of a worker and of all its descendants, in whatever sessions; they never fall.

    A descendant that has lost its parent, or ended, is remembered until the next measurement.
    """

    def __init__(self, pid: int) -> None:
        self.seconds = 0.0
        self._pid = pid
        self._members: Dict[int, ProcessTimes] = {}

    def measure(self, processes: Mapping[int, ProcessTimes], reaper: int) -> float:
        """The seconds by now; `reaper` has adopted the orphans, and takes their times with it."""
        before, self._members = self._members, self._found(processes)
        reaped = {pid for pid, one in before.items() if pid not in self._members and one.parent == reaper}
        counted = sum(one.cpu for pid, one in before.items() if pid not in reaped)
        self.seconds += max(0.0, sum(one.cpu for one in self._members.values()) - counted)
        return self.seconds

    def _found(self, processes: Mapping[int, ProcessTimes]) -> Dict[int, ProcessTimes]:
        children: Dict[int, List[int]] = {}
        for pid, one in processes.items():
            children.setdefault(one.parent, []).append(pid)
        waiting = [pid for pid, one in processes.items() if pid == self._pid or one.session == self._pid]
        waiting += [
            pid
            for pid, one in self._members.items()
            if pid in processes and processes[pid].started == one.started
        ]
        found: Dict[int, ProcessTimes] = {}
        while waiting:
            pid = waiting.pop()
            if pid not in found:
                found[pid] = processes[pid]
                waiting += children.get(pid, ())
        return found


class HangDetector:
    """Reports each worker once that was inactive for `timeout` seconds; None to detect nothing."""

    def __init__(self, timeout: Optional[float], inbox: SignalInbox, journal: Journal) -> None:
        self._timeout = timeout
        self._inbox = inbox
        self._journal = journal
        self._activities: Dict[int, LastActivity] = {}
        self._meters: Dict[int, CpuMeter] = {}
        self._known: List[int] = []
        self._asking: Optional[Tuple[List[str], Task[List[str]]]] = None
        self._next = time.monotonic() + self._interval()

    def _interval(self) -> float:
        return min(LONGEST_INTERVAL, self._timeout / CHECKS) if self._timeout else math.inf

    def patience(self) -> float:
        """Seconds until `check` should be called; while stacks are collected, their end wakes the inbox."""
        return math.inf if self._asking is not None else max(0.0, self._next - time.monotonic())

    def check(self, workers: Sequence[Worker]) -> List[str]:
        """The labels of workers that hang, once their stacks have been printed; mostly none.

        An unexpected error is reported and ends the detection, never the training.
        """
        try:
            return self._check(workers)
        except Exception as error:
            self._timeout, self._asking, self._next = None, None, math.inf
            self._journal.say(f"hangs are no longer detected: {described(error)}")
            return []

    def _check(self, workers: Sequence[Worker]) -> List[str]:
        if self._asking is not None:
            return self._answered(*self._asking)
        now = time.monotonic()
        if self._timeout is None or now < self._next:
            return []
        self._next = now + self._interval()
        processes = process_times()
        for worker in workers:
            used = self._meters.setdefault(worker.pid, CpuMeter(worker.pid)).measure(processes, os.getpid())
            before = self._activities.get(worker.pid, LastActivity(now, used))
            self._activities[worker.pid] = before.updated(now, used, worker.output.heard)
        hung = [worker for worker in workers if now - self._activities[worker.pid].when >= self._timeout]
        new = [worker for worker in hung if worker.pid not in self._known]
        self._known = [worker.pid for worker in hung]
        return self._ask(new) if new else []

    def _ask(self, workers: Sequence[Worker]) -> List[str]:
        labels = [worker.spec.label for worker in workers]
        self._journal.say(f"{', '.join(labels)}: no output and no CPU time for {self._timeout:.0f} s")
        own = os.path.dirname(sys.executable)
        asked = [(w.spec.label, w.pid, f"{w.spec.environ.get('PATH', '')}:{own}") for w in workers]

        def ask(_: object) -> List[str]:
            return [f"{label} (pid {pid}): {_stack_or_error(pid, path)}" for label, pid, path in asked]

        try:
            self._asking = (labels, Task("stacks", ask, self._inbox))
        except RuntimeError as error:  # the limit of threads
            return self._report(labels, [f"no stacks: {error}"])
        return []

    def _answered(self, labels: List[str], task: Task[List[str]]) -> List[str]:
        if not task.finished:
            return []
        self._asking = None
        return self._report(labels, task.result())

    def _report(self, labels: List[str], answers: Sequence[str]) -> List[str]:
        for answer in answers:
            self._journal.say(answer.rstrip("\n").replace("\n", "\n  "))
        self._journal.event("hang", labels=labels)
        return labels


def process_times() -> Dict[int, ProcessTimes]:
    """Every process, zombies included: what they used is lost to the sum only when they are reaped."""
    return {
        pid: ProcessTimes(int(stat[1]), int(stat[3]), stat[19], sum(map(int, stat[11:15])) * _TICK)
        for pid, stat in process_stats().items()
    }


def _stack_or_error(pid: int, path: str) -> str:
    try:
        return stack_of(pid, path)
    except Exception as error:  # the hang itself is what counts
        return f"no stacks: {described(error)}"


def stack_of(pid: int, path: str) -> str:
    """The stacks of a Python process, or why there are none; `path` is searched for py-spy.

    Without py-spy, a process that catches SIGUSR1 gets it: faulthandler prints the stacks to its own output.
    Any other process would be ended by that signal.
    """
    failed, spy = "py-spy is not installed", shutil.which("py-spy", path=path)
    if spy is not None:
        try:
            done = subprocess.run(
                [spy, "dump", "--pid", str(pid)],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                timeout=PY_SPY_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"py-spy did not answer within {PY_SPY_SECONDS:.0f} s"
        except OSError as error:  # the interpreter in its first line does not exist, for example
            failed = f"{spy} cannot be executed: {error.strerror}"
        else:
            if done.returncode == 0:
                return done.stdout
            failed = f"py-spy failed: {done.stderr.strip()}"
    if _catches_sigusr1(pid):
        os.kill(pid, signal.SIGUSR1)
        return "sent SIGUSR1, the stacks are in its own output"
    return f"no stacks: {failed}, and the script does not call faulthandler.register(signal.SIGUSR1)"


def _catches_sigusr1(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            caught = next((line.split()[1] for line in file if line.startswith("SigCgt:")), "0")
    except OSError:
        return False
    return bool(int(caught, 16) & _SIGUSR1_BIT)
