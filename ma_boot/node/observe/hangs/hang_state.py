"""Idle time of each worker, and the decision to collect stacks or to report a hang. Pure.

                      a worker is idle for `timeout`, or a peer reports a hang
        +----------+  ------------------------------------------------------->  +------------+
        | watching |                                                            | collecting |
        +----------+  <-------------------------------------------------------  +------------+
           ^           hang: its workers are reported, each once                      |
           |                                                                          |
           |  max(ROUND_PAUSE, timeout) later    +--------+   no hang: other ranks    |
           +-----------------------------------  | paused |  <------------------------+
                                                 +--------+   are at work

A worker that becomes idle within ROUND_PAUSE after a collection is reported without new stacks.
The shell (`hang_detector`) holds the round that is being collected; the other states are in `HangState`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ma_boot.processes.cpu_meter import IDLE_SHARE

# Checks within one timeout: a hang is noticed at most an eighth of the timeout late.
CHECKS_PER_TIMEOUT = 8
# seconds; longest time between two checks
LONGEST_INTERVAL = 30.0
# seconds between two collections: py-spy stops each process for a moment
ROUND_PAUSE = 60.0
# The kernel counts CPU time in whole ticks, separately for user and system time: each may be one tick off.
UNSURE_TICKS = 2
# seconds; clock tick of the kernel's CPU accounting (proc(5))
_TICK = 1 / os.sysconf("SC_CLK_TCK")


class LastActivity(NamedTuple):
    """Time at which a worker was last active, and its CPU seconds at that time.

    `checked` and `checked_cpu` are the same for its last check. Times are monotonic, in seconds; CPU seconds
    are those of the worker's `CpuMeter`.
    """

    when: float
    cpu: float
    checked: float
    checked_cpu: float

    def updated(self, now: float, cpu: float, last_output: float) -> LastActivity:
        """Returns the activity at `now`, given the CPU seconds and the time of the last output.

        CPU time counts since the last activity and since the last check: a short burst of work after a long
        idle time is a small share of the former, but a large share of the latter.
        """
        if _is_work(cpu - self.cpu, now - self.when) or _is_work(cpu - self.checked_cpu, now - self.checked):
            return LastActivity(now, cpu, now, cpu)
        if last_output > self.when:
            return LastActivity(last_output, cpu, now, cpu)
        return self._replace(checked=now, checked_cpu=cpu)


def _is_work(cpu: float, seconds: float) -> bool:
    return cpu - UNSURE_TICKS * _TICK > IDLE_SHARE * seconds


class Judgement(NamedTuple):
    """Workers (by pid) to report as hanging; with `collect`, their stacks are collected first."""

    new: tuple[int, ...] = ()
    collect: bool = False


class HangState(NamedTuple):
    """Activity of the workers of this node, and the history of collections.

    Times are monotonic seconds. `known` are the pids that have been idle for `timeout` at the last check and
    are not reported again. `ranks_at_work` is the result of the last collection: idle ranks wait for others
    that still work.
    """

    timeout: float = math.inf
    next_check: float = math.inf
    activities: Mapping[int, LastActivity] = {}
    known: frozenset[int] = frozenset()
    last_round: float = -math.inf
    ranks_at_work: bool = False

    @classmethod
    def initial(cls, timeout: float | None, now: float) -> HangState:
        """Returns the state at the start of a run; without a timeout no check is ever due."""
        state = cls(math.inf if timeout is None else timeout)
        return state._replace(next_check=now + state.interval)

    @property
    def interval(self) -> float:
        """Seconds between two checks; infinite without a timeout."""
        is_on = math.isfinite(self.timeout)
        return min(LONGEST_INTERVAL, self.timeout / CHECKS_PER_TIMEOUT) if is_on else math.inf

    def idle_seconds(self, pid: int, now: float) -> float:
        """Returns the seconds since the worker's last activity."""
        return now - self.activities[pid].when

    def checked(self, usages: Mapping[int, tuple[float, float]], now: float) -> HangState:
        """Returns the state after a check, given CPU seconds and time of the last output of each worker."""
        activities = dict(self.activities)
        for pid, (cpu, last_output) in usages.items():
            before = activities.get(pid, LastActivity(now, cpu, now, cpu))
            activities[pid] = before.updated(now, cpu, last_output)
        return self._replace(activities=activities, next_check=now + self.interval)

    def seen_alive(self, times: Mapping[int, float]) -> HangState:
        """Returns the state with other signs of life: the time at which each worker showed the last one."""
        later = {
            pid: self.activities[pid]._replace(when=max(self.activities[pid].when, when))
            for pid, when in times.items()
        }
        return self._replace(activities={**self.activities, **later})

    def judged(self, hanging: Sequence[int], now: float) -> tuple[HangState, Judgement]:
        """Returns the next state and the decision, given the workers that are idle for the whole timeout."""
        new = tuple(pid for pid in hanging if pid not in self.known)
        after = self._replace(known=frozenset(hanging))
        if not self.ranks_at_work:
            return after, Judgement(new, collect=self.may_collect(now))
        if now < self.last_round + max(ROUND_PAUSE, self.timeout):
            # Idle workers stay new, so that the first check after the pause judges them again.
            return self._replace(known=frozenset()), Judgement()
        return after, Judgement(new, collect=True)

    def may_collect(self, now: float) -> bool:
        """Returns whether the last collection is long enough ago for another one."""
        return now >= self.last_round + ROUND_PAUSE

    def collected(self, began: float, now: float, ranks_at_work: bool) -> HangState:
        """Returns the state after a collection, during which no worker was checked: that time is not idle."""
        shifted = {
            pid: activity._replace(when=activity.when + now - began)
            for pid, activity in self.activities.items()
        }
        known = frozenset() if ranks_at_work else self.known
        return self._replace(activities=shifted, known=known, last_round=now, ranks_at_work=ranks_at_work)
