"""Observer of the ranks that a command starts itself: their ends, and their numbers in the job.

/proc --StartedRanks--> ScriptRanksState --judged--> failures: `Worker.failed_ranks`, which stop the run
                             |
                             `--> RankCensus --> wrong numbers: `error`, which stops the run
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Sequence
from typing import NamedTuple

from ma_boot.errors import ConfigError
from ma_boot.node.observe.ranks_of_scripts.rank_census import RankCensus
from ma_boot.node.observe.ranks_of_scripts.rank_exits import exit_of, with_failed_ranks
from ma_boot.node.observe.ranks_of_scripts.started_ranks import LOOK_SECONDS, StartedRanks
from ma_boot.node.scripts.script_state import Key, RankEnd, ScriptRanksState
from ma_boot.node.supervisor.worker_group import Worker, start_command
from ma_boot.report.journal import Journal
from ma_boot.report.result import RunResult, WorkerExit
from ma_boot.wording import Message

# Exit code of a process that ma_boot has stopped.
BY_SIGTERM = 128 + signal.SIGTERM

CHECK, REPORT, OFF = "check", "report", "off"


class ScriptOptions(NamedTuple):
    """Options for script ranks.

    With `action` `check`, failures and wrong numbers stop the run; with `report` they are only reported; with
    `off` script ranks are not looked for. A rank's end is judged after `grace` seconds.
    """

    action: str = CHECK
    grace: float = 30.0


class ScriptRanks:
    """Observer of the ranks below a command that runs once per node; without such a command it is idle.

    `marker` is carried by all processes of this run. `error` is the reason of a stop for wrong numbers.
    """

    without = "ranks of the start script are not watched"

    def __init__(self, options: ScriptOptions, marker: str, census: RankCensus, journal: Journal) -> None:
        self.error: ConfigError | None = None
        self._options = options
        self._marker = marker
        self._census = census
        self._journal = journal
        self._state = ScriptRanksState()
        self._ranks: StartedRanks | None = None

    def patience(self) -> float:
        """Seconds until the next look or judgement."""
        if self._ranks is None:
            return LOOK_SECONDS[0] if self._options.action != OFF else math.inf
        judged = self._state.next_judgement(self._options.grace)
        due = min(self._ranks.next_look, math.inf if judged is None else judged)
        return max(0.0, due - time.monotonic())

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Looks for ranks and judges ends; returns the reason to stop, mostly empty."""
        command = start_command(workers)
        if command is None or self._options.action == OFF:
            self._options = self._options._replace(action=OFF)
            return ""
        if self._ranks is None:
            self._ranks = StartedRanks(command, self._marker)
        self._ranks.is_stopping = stopping
        now = time.monotonic()
        self._take_ends(self._ranks, now)
        if now >= self._ranks.next_look:
            self._look(self._ranks, now)
        return "" if stopping else self._judge_ends(self._ranks, now) or self._judge_numbers(now)

    def close(self) -> None:
        """Takes the last ends, and reports to node 0 that this node's command has ended."""
        if self._ranks is None:
            return
        now = time.monotonic()
        self._take_ends(self._ranks, now)
        self._look(self._ranks, now)
        self._census.end()
        self._ranks.close()

    def result(self, run: RunResult) -> RunResult:
        """Returns the result of the run with the ends of script ranks that explain it."""
        if self._ranks is None:
            return run
        command = self._ranks.command.exit
        exits = with_failed_ranks(run.exits, self._state.failures(), command)
        self._record_ends(exits, command, self._ranks.command.spec.log_file)
        error = self.error or (self._census.wrong_numbers(time.monotonic()) if run.succeeded else None)
        if error is not None and self._options.action == CHECK:
            return run._replace(not_started=run.not_started or error)
        return run._replace(exits=exits)

    def _record_ends(self, exits: Sequence[WorkerExit], command: WorkerExit | None, log_file: str) -> None:
        """Writes the end of each script rank as an event; the exit code is null where it is not known."""
        reported = {ended.pid: ended for ended in exits}
        has_succeeded = command is not None and command.code == 0
        for end in self._state.ended:
            ended = exit_of(end, log_file)
            ended = reported.get(ended.pid, ended._replace(stopped=end.stopping))
            is_known = end.code is not None or ended.pid in reported
            unknown = BY_SIGTERM if end.stopping else 0 if has_succeeded else None
            code = ended.code if is_known else unknown
            self._journal.event("exit", **{**ended.event(), "code": code})

    def _look(self, ranks: StartedRanks, now: float) -> None:
        found, new = ranks.look(self._state, now)
        for rank in new:
            self._journal.event(
                "start", label=f"rank {rank.number.rank}", rank=rank.number.rank, pid=rank.process.pid,
                cores=[], log_file=rank.log_file or ranks.command.spec.log_file,
            )  # fmt: skip
        for label, number in ranks.newly_printing():
            self._journal.event("first-output", label=label, rank=number, first_ns=time.monotonic_ns())
        self._state = self._state.with_found(found)
        for gone in set(self._state.running) - {rank.process.key for rank in found}:
            self._end(ranks, gone, now)
        has_changed = self._census.count(self._state.running.values(), now)
        ranks.plan_look(now, has_changed=has_changed)

    def _take_ends(self, ranks: StartedRanks, now: float) -> None:
        for key in ranks.ended():
            if key in self._state.running:
                self._end(ranks, key, now)

    def _end(self, ranks: StartedRanks, key: Key, now: float) -> None:
        self._state = self._state.with_end(ranks.end_of(self._state.running[key], now))
        ranks.plan_look(now, has_changed=True)

    def _judge_ends(self, ranks: StartedRanks, now: float) -> str:
        """Reports the ends that are due; returns the reason to stop for a failure."""
        self._state, judged = self._state.judged(now, self._options.grace)
        for end in judged.silent:
            text = (
                "rank {} (pid {}) has ended while other ranks of the command still run; its exit code is "
                "known to the command alone"
            )
            self._report(text, end)
        for end in judged.failed:
            text = "rank {} (pid {}) of the command has failed, and other ranks have run on for {} s"
            self._report(text, end, f"{now - end.when:.0f}")
        if not judged.failed or self._options.action != CHECK:
            return ""
        failed = [exit_of(end, ranks.command.spec.log_file) for end in judged.failed]
        ranks.command.failed_ranks += failed
        return Message.of("{} {}", failed[0].label, failed[0].how())

    def _judge_numbers(self, now: float) -> str:
        """Reports wrong numbers, once; returns them as the reason to stop."""
        error = self._census.wrong_numbers(now)
        if error is None or self.error is not None:
            return ""
        self.error = error
        if self._options.action == CHECK:
            return str(error)
        self._journal.warn(str(error))
        return ""

    def _report(self, text: str, end: RankEnd, *more: object) -> None:
        self._journal.warn(Message.of(text, end.rank.number.rank, end.rank.process.pid, *more))
