"""Failures of a node, by its own processes."""

from __future__ import annotations

import time
from typing import NamedTuple

from ma_boot.errors import ExitCode
from ma_boot.report.cause import Cause, causes_of, readable
from ma_boot.report.exit_report import Ending
from ma_boot.report.result import ExitStatus, HangSuspect, RunResult
from ma_boot.wording import Message, lines_of


class OwnCauses(NamedTuple):
    """Failures of one node; `epoch` is the offset from its monotonic clock to Unix time, in seconds."""

    node: int
    epoch: float

    def of_attempt(self, run: RunResult) -> list[Cause]:
        """Returns the failures of this node in an attempt."""
        failures = causes_of(run.exits, self.node, self.epoch)
        if not failures and run.not_started is not None:
            words = readable(str(run.not_started))
            failures = [Cause(self.node, None, run.not_started.exit_code, words, self._now())]
        hang = self.hang_of(run)
        if failures or not run.hung:
            return failures
        # A node reports its own ranks only: it does not send a suspect of another node.
        if hang is None or hang.node != self.node:
            hang = Cause(self.node, None, ExitCode.HUNG, Message("the ranks hung"), self._now())
        return [hang]

    def of_end(self, ending: Ending, status: ExitStatus) -> list[Cause]:
        """Returns the failures of this node, which ends with this status."""
        run = ending.run
        own = causes_of(run.exits, self.node, self.epoch) if run is not None else []
        if run is not None and run.advice and run.first_failure is not None:
            first = run.first_failure.rank
            own = [cause._replace(hint=run.advice[0]) if cause.rank == first else cause for cause in own]
        hung = self.hang_of(run) is not None
        if status.by in ("ma_boot", "output") and not hung and not any(failure.code for failure in own):
            words = readable(lines_of(status.cause)[0])
            own = [Cause(self.node, None, status.code, words, self._now())]
        return own

    def hang_of(self, run: RunResult | None) -> Cause | None:
        """Returns the hang that has ended this node, None without a suspect."""
        return self.hang(run.suspect) if run is not None and run.hung and run.suspect is not None else None

    def hang(self, suspect: HangSuspect) -> Cause:
        """Returns the hang of a suspect as a cause."""
        words = Message.of("it hung: {}", readable(suspect.in_words()))
        return Cause(suspect.node, suspect.rank, ExitCode.HUNG, words, self._now())

    def _now(self) -> float:
        return round(time.monotonic() + self.epoch, 3)
