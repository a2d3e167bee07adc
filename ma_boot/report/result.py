"""Ends of a node's processes, and the first failure among them. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from ma_boot.errors import BootError, signal_name
from ma_boot.wording import Message, counted

CAUSE, FOLLOWED, STOPPED, WELL = "cause", "followed", "stopped", "well"
ROLES = {CAUSE: "the cause", FOLLOWED: "failed after it", STOPPED: "stopped by ma_boot", WELL: "ended with 0"}
# Codes of SIGTERM and SIGKILL: as shells show them, and as launchers pass on -15 and -9.
STOP_CODES = frozenset({143, 137, 241, 247})
# Codes of SIGHUP and SIGINT, which stop a process, too: scripts end their own children so.
HANGUP_CODES = frozenset({129, 130})


class WorkerExit(NamedTuple):
    """End of one process: `code` as a shell shows it (128+n for signal n), `seconds` after its start.

    `ended_ns` is the monotonic clock in nanoseconds; processes that were found to have ended at the same time
    are in the order in which the kernel reported them. `stopped` means that ma_boot was already stopping all
    processes, so this one is not the cause. `output` is the end of what it printed, `log_lost` the number of
    bytes that could not be written to its log file, `oom` the evidence that the kernel OOM-killed it, and
    `plog` the newest errors in CANN's logs of a process that failed. `hidden` is the exit code of a rank
    whose command has ended with 0 all the same: then `code` is 0.
    """

    label: str
    rank: int | None
    device: int | None
    pid: int
    code: int
    signal: int | None
    ended_ns: int
    seconds: float
    stopped: bool
    log_file: str
    output: str = ""
    log_lost: int = 0
    oom: str | None = None
    plog: str = ""
    hidden: int = 0

    def event(self) -> dict[str, Any]:
        """Returns the fields of the event `exit`."""
        names = ("label", "rank", "pid", "code", "signal", "seconds", "ended_ns", "stopped", "oom")
        return {name: getattr(self, name) for name in names}

    def how(self) -> str:
        """Describes the end without the process's name."""
        if self.signal is not None:
            return Message.of("was killed by {}", signal_name(self.signal))
        return Message.of("ended with exit code {}", self.code)


class HangSuspect(NamedTuple):
    """The rank that most likely blocks the others, and the evidence; `rank` is None for a whole node."""

    node: int
    rank: int | None
    why: str

    def __str__(self) -> str:
        return node_and_rank(self.node, self.rank)

    def in_words(self) -> str:
        """Formats the evidence as a sentence to follow the suspect's name."""
        return Message.of("it {}", self.why)


def role_beside_cause(code: int, stopped: bool, alone: bool) -> str:
    """Returns the role of a process that is not the first failure: `FOLLOWED`, `STOPPED` or `WELL`.

    A process that fails on its own after the first one usually lost its peer; that ma_boot was already
    stopping it does not make it stopped, unless its code is that of a stop, or none failed on its own
    (`alone`).
    """
    if code == 0:
        return WELL
    return STOPPED if stopped and (alone or code in STOP_CODES) else FOLLOWED


def node_and_rank(node: int, rank: int | None) -> str:
    """Formats `node 1, rank 3`, or `node 1` without a rank."""
    return Message.of("node {}", node) if rank is None else Message.of("node {}, rank {}", node, rank)


class ExitStatus(NamedTuple):
    """Exit code, its origin, and the cause in words, whose first line is a headline.

    `by` is `signal`, `ma_boot`, `training`, `output`, or None for success.
    """

    code: int
    by: str | None
    cause: str


class RunResult(NamedTuple):
    """Ends of all processes, in order of time.

    `not_started`: error that prevented the start. `hung`: the suspect of the hang that ended the run, or the
    job. `left`: labels of those that survived SIGKILL. `advice`: remedies for the first failure. `suspect`:
    suspect of the last hang. `stopped_for`: failure for which the job was given up before any stop signal;
    then no node starts another attempt. `is_released`: the processes only worked for node 0's command, and
    were stopped when that had ended with 0.
    """

    exits: tuple[WorkerExit, ...]
    not_started: BootError | None = None
    hung: str = ""
    left: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    suspect: HangSuspect | None = None
    stopped_for: ExitStatus | None = None
    is_released: bool = False

    @property
    def first_failure(self) -> WorkerExit | None:
        """The first process that failed on its own, None if none did."""
        return next((ended for ended in self.exits if ended.code != 0 and not ended.stopped), None)

    def failure_of(self, rank: int | None) -> WorkerExit | None:
        """Returns the process of a rank, or the one that is no rank, if it ended with an error."""
        named = next((ended for ended in self.exits if ended.rank == rank), None)
        # A scheduler beside ranks that hang without a suspect was only stopped for them.
        if named is None or (rank is None and named.stopped and len(self.exits) > 1):
            return None
        return named if named.code else None

    @property
    def succeeded(self) -> bool:
        """True if every process was started and ended with 0 on its own.

        A process that ended with 0 while it was being stopped may have a handler of SIGTERM: its work is not
        done. Nor is that of a job that was given up.
        """
        if self.not_started is not None or self.hung or self.left or self.stopped_for is not None:
            return False
        if self.is_released:
            return bool(self.exits) and all(ended.code == 0 or ended.stopped for ended in self.exits)
        return bool(self.exits) and all(ended.code == 0 and not ended.stopped for ended in self.exits)

    @property
    def outcome(self) -> str:
        """Outcome of the phase: `done`, `failed` or `stopped`."""
        if self.succeeded:
            return "done"
        return "failed" if self.first_failure or self.not_started or self.hung else "stopped"

    def role(self, ended: WorkerExit) -> str:
        """Returns the role of an end in the run: `CAUSE`, `FOLLOWED`, `STOPPED` or `WELL`."""
        if ended is self.first_failure:
            return CAUSE
        return role_beside_cause(ended.code, ended.stopped, self.first_failure is None)

    def summary(self) -> str:
        """Summarizes the run in one line for the log."""
        failure = self.first_failure
        if failure is not None:
            return Message.of("{} {}", failure.label, failure.how())
        stopped = sum(ended.stopped for ended in self.exits)
        return f"{counted(len(self.exits) - stopped, 'process', 'processes')} ended with 0" + (
            f", {stopped} stopped" if stopped else ""
        )
