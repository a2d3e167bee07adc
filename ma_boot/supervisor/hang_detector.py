"""Notices processes that neither print nor compute, and asks them where they stand."""

from __future__ import annotations

import math
import os
import sys
import time
from dataclasses import dataclass
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from ma_boot.processes import SignalInbox, Task
from ma_boot.supervisor.stacks import stack_of
from ma_boot.supervisor.worker import Worker

LOOKS = 8  # in the time after which a process counts as hung
LONGEST_BETWEEN = 30.0
IDLE_SHARE = 0.01  # of a core: what a process's timers use while it waits


@dataclass(frozen=True)
class Sign:
    """The last sign of life: when it came, and the CPU seconds of the session at that moment."""

    when: float
    cpu: float

    def next(self, now: float, cpu: float, heard: float) -> Sign:
        """The sign of now, if there was output since (`heard`) or CPU time worth the name; else this one."""
        if cpu - self.cpu > IDLE_SHARE * (now - self.when):
            return Sign(now, cpu)
        return Sign(heard, cpu) if heard > self.when else self


class HangWatch:
    """Watches sessions of processes; `timeout` in seconds, None for nothing to watch."""

    def __init__(self, timeout: Optional[float], inbox: SignalInbox, say: Callable[[str], None]) -> None:
        self._timeout = timeout
        self._inbox = inbox
        self._say = say
        self._signs: Dict[int, Sign] = {}
        self._known: List[int] = []
        self._asking: Optional[Tuple[List[str], Task[List[str]]]] = None
        self._next = time.monotonic() + self._between()

    def _between(self) -> float:
        return min(LONGEST_BETWEEN, self._timeout / LOOKS) if self._timeout else math.inf

    def next_look(self) -> float:
        """Seconds until `look` should be called."""
        return max(0.0, self._next - time.monotonic())

    def look(self, workers: Sequence[Worker]) -> List[str]:
        """The labels of those that hang, once, after it is printed where they stand."""
        if self._timeout is None:
            return []
        if self._asking is not None:
            return self._answered()
        now = time.monotonic()
        if now < self._next:
            return []
        self._next = now + self._between()
        cpu = cpu_seconds()
        for worker in workers:
            used = cpu.get(worker.pid, 0.0)
            before = self._signs.get(worker.pid, Sign(now, used))
            self._signs[worker.pid] = before.next(now, used, worker.output.heard)
        hung = [worker for worker in workers if now - self._signs[worker.pid].when >= self._timeout]
        new = [worker for worker in hung if worker.pid not in self._known]
        self._known = [worker.pid for worker in hung]
        if new:
            self._ask(new)
        return []

    def _ask(self, workers: Sequence[Worker]) -> None:
        labels = [worker.spec.label for worker in workers]
        self._say(f"[ma_boot] {', '.join(labels)}: no output and no CPU time for {self._timeout:.0f} s")
        own = os.path.dirname(sys.executable)
        asked = [(w.spec.label, w.pid, f"{w.spec.environ.get('PATH', '')}:{own}") for w in workers]

        def ask(_: object) -> List[str]:
            return [f"{label} (pid {pid}): {stack_of(pid, path)}" for label, pid, path in asked]

        self._asking = (labels, Task("stacks", ask, self._inbox))

    def _answered(self) -> List[str]:
        assert self._asking is not None
        labels, task = self._asking
        if not task.finished:
            return []
        self._asking = None
        for answer in task.result():
            self._say("[ma_boot] " + answer.rstrip("\n").replace("\n", "\n[ma_boot]   "))
        return labels


def cpu_seconds() -> Dict[int, float]:
    """The CPU time of each session: of its processes, and of those that these have waited for."""
    ticks = os.sysconf("SC_CLK_TCK")
    used: Dict[int, float] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        session = int(fields[3])
        used[session] = used.get(session, 0.0) + sum(map(int, fields[11:15])) / ticks
    return used
