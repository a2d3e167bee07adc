"""Ranks that a command has started: the running ones, the ended ones, and the failures among these. Pure.

    found in /proc --> running --(its process ends)--> ended --(after the grace period)--> failed
                                                         |                                 silent end
                                                         |                                 no matter
                                                         +--(the script starts the rank again)--> no matter

An end is judged late, since a script may start a rank again or may be stopping the others itself: only while
other ranks of the same start still run is it the reason for a wait without an end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ma_boot.node.scripts.script_rank import Process, RankNumber
from ma_boot.report.doubt import failure_at_end
from ma_boot.report.result import STOP_CODES

Key = tuple[int, str]
# `run.sh: line 7: 4711 Killed  python train.py`, as bash prints it.
_BY_SHELL = r": line \d+: +{} (?:Killed|Segmentation fault|Bus error|Aborted|Illegal instruction)\b"


class ScriptRank(NamedTuple):
    """A rank that the command has started; `seen` is the first look that found it (monotonic, seconds).

    `log_file` is the file to which its output goes, None where that is the command's own output.
    """

    process: Process
    number: RankNumber
    log_file: str | None
    seen: float


class RankEnd(NamedTuple):
    """End of a script rank at `when` (monotonic, seconds).

    `code` is None where only its parent, the script, has read it. `output` is the end of its log file; for a
    rank without one, the end of the command's output at that moment. `oom` is the evidence of an OOM kill.
    `stopping`: it was noticed when all processes were being stopped.
    """

    rank: ScriptRank
    when: float
    code: int | None
    output: str
    oom: str | None = None
    stopping: bool = False

    @property
    def has_failed(self) -> bool:
        """True if the exit code, the output or the kernel shows a failure of its own."""
        if self.code is not None:
            return self.code != 0 and not (self.stopping and self.code in STOP_CODES)
        if self.stopping and self.rank.log_file is None:
            return False
        return self.oom is not None or shows_failure(self.output, self.rank.process.pid)


def shows_failure(output: str, pid: int) -> bool:
    """Returns whether an output ends in the failure of a process, or a shell reports a fatal signal of `pid`.

    A shell names the process only once it has waited for it, often after others.
    """
    by_shell = re.search(_BY_SHELL.format(pid), output)
    return by_shell is not None or failure_at_end(output) is not None


class JudgedEnds(NamedTuple):
    """Ends whose grace period is over: failures, and ends of which the reason is unknown."""

    failed: Sequence[RankEnd] = ()
    silent: Sequence[RankEnd] = ()


class ScriptRanksState(NamedTuple):
    """Ranks of a command; each method returns the next value."""

    running: Mapping[Key, ScriptRank] = {}
    ended: tuple[RankEnd, ...] = ()
    waiting: tuple[RankEnd, ...] = ()  # those of `ended` that are not judged yet

    def with_found(self, ranks: Sequence[ScriptRank]) -> ScriptRanksState:
        """Adds ranks that a look has found; those that are known keep their first look."""
        return self._replace(running={**{rank.process.key: rank for rank in ranks}, **self.running})

    def with_end(self, end: RankEnd) -> ScriptRanksState:
        """Moves a rank from the running to the ended ones."""
        running = {key: rank for key, rank in self.running.items() if key != end.rank.process.key}
        return self._replace(running=running, ended=(*self.ended, end), waiting=(*self.waiting, end))

    def judged(self, now: float, grace: float) -> tuple[ScriptRanksState, JudgedEnds]:
        """Judges the ends that are older than `grace` seconds."""
        due = [end for end in self.waiting if now - end.when >= grace]
        if not due:
            return self, JudgedEnds()
        state = self._replace(waiting=tuple(end for end in self.waiting if end not in due))
        matter = [end for end in due if self._blocks_others(end)]
        failed = [end for end in matter if end.has_failed]
        silent = [end for end in matter if end.code is None and not end.has_failed]
        return state, JudgedEnds(failed, silent)

    def next_judgement(self, grace: float) -> float | None:
        """Returns the moment at which the next end is judged; None if none waits."""
        return min((end.when + grace for end in self.waiting), default=None)

    def failures(self) -> list[RankEnd]:
        """Returns all ends that show a failure, in order of time, without ranks that were started again."""
        return [end for end in self.ended if end.has_failed and not self._is_started_again(end)]

    def _blocks_others(self, end: RankEnd) -> bool:
        """Returns whether ranks of the same start still run, and the rank was not started again."""
        siblings = (rank for rank in self.running.values() if rank.seen <= end.when)
        return any(siblings) and not self._is_started_again(end)

    def _is_started_again(self, end: RankEnd) -> bool:
        others = [*self.running.values(), *(other.rank for other in self.ended)]
        return any(rank.number.rank == end.rank.number.rank and rank.seen > end.rank.seen for rank in others)
