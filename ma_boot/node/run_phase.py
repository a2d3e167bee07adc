"""The run of a node's processes, started again after a failure where that can help."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Sequence

from ma_boot.errors import ConfigError
from ma_boot.launch import WorkerSpec
from ma_boot.modelarts import JobEnvironment, instance_name
from ma_boot.node.world import World
from ma_boot.reporting import RunResult
from ma_boot.supervisor import Limits, supervise

RELEASE_SECONDS = 15.0  # an NPU is not free at once when the process that used it has ended
NPU = Path("/dev/davinci_manager")
_NEVER_MENDED = {
    2: "wrong use of the command",
    126: "a command that cannot be executed",
    127: "a command that does not exist",
}


@dataclass(frozen=True)
class Restarts:
    """How often, at the most, and after how many seconds of life a process has really started."""

    most: int
    start_seconds: float


def check_restarts(restarts: Restarts, job: JobEnvironment) -> None:
    """Raises `ConfigError` where the other nodes would not start again with this one."""
    if restarts.most and job.node_count > 1:
        raise ConfigError(
            f"--max-restarts is for jobs of one node, this one has {job.node_count}: the other nodes' "
            "processes would wait for ever. ModelArts itself starts all of them again: set the job's restart "
            "times (fault-tolerance/job-retry-num) and, for any exit code, the unconditional restart"
        )


def train(workers: Sequence[WorkerSpec], world: World, limits: Limits, restarts: Restarts) -> RunResult:
    """Runs the processes; after a failure that a new start can mend, runs all of them again.

    Each attempt has its own log files: those of the one before get a number.
    """
    container = instance_name(world.environ)
    for attempt in itertools.count(1):
        result = supervise(workers, limits, world.inbox, world.journal, world.environ, container)
        if result.succeeded or attempt > restarts.most or world.inbox.stops:
            return result
        against = why_not_again(result, restarts.start_seconds)
        if against is not None:
            world.journal.say(f"attempt {attempt}: {result.summary()}; no other attempt: {against}")
            return result
        world.journal.event("restart", attempt=attempt + 1, reason=result.summary())
        world.journal.say(
            f"attempt {attempt}: {result.summary()}; starting attempt {attempt + 1} of {restarts.most + 1}"
        )
        _wait_for_devices(world)
        if world.inbox.stops:
            return result
    raise AssertionError("not reached: the loop has no end of its own")


def why_not_again(result: RunResult, start_seconds: float) -> Optional[str]:
    """Why a new start would end as this one did; None where it may not."""
    failure = result.first_failure
    if result.not_started is not None or result.left:
        return "a process could not be started" if result.not_started else "a process cannot be ended"
    if failure is None:
        return None  # it hung
    if failure.code in _NEVER_MENDED:
        return f"exit code {failure.code} stands for {_NEVER_MENDED[failure.code]}"
    if failure.seconds < start_seconds:
        return f"it failed within its first {start_seconds:.0f} s (--start-seconds)"
    return None


def _wait_for_devices(world: World) -> None:
    until = time.monotonic() + (RELEASE_SECONDS if NPU.exists() else 0.0)
    while time.monotonic() < until and not world.inbox.stops:
        world.inbox.wait(until - time.monotonic())
