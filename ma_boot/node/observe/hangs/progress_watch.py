"""Watches the progress of ranks that use CPU: their steps, and their output in new words.

CPU time is no sign of progress: a rank that waits in NCCL, Gloo or a device synchronisation may poll.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from ma_boot.node.observe.hangs.new_words import NewWords
from ma_boot.node.observe.hangs.step_clock import SilentState, StepClock
from ma_boot.node.observe.metrics.output_reader import OutputReader
from ma_boot.node.observe.metrics.source import Source, Sources
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.wording import Message


class ProgressWatch:
    """Decides when the stacks of ranks that are not idle must be looked at.

    `elsewhere` are the other nodes that have shown steps, or passed that on: while one of them runs, only its
    clock counts, since the ranks of most nodes print nothing.
    """

    def __init__(self, timeout: float, output: OutputReader) -> None:
        self.clock = StepClock()
        self.elsewhere: set[int] = set()
        self._timeout = timeout
        self._silent = SilentState()
        self._printed = time.monotonic()
        self._output = output
        self._read = output.subscribe()
        self._words: dict[Source, NewWords] = {}

    def read(self, workers: Sequence[Worker]) -> bool:
        """Reads the new output; returns whether it has the first step of this node."""
        had_steps = self.clock.runs
        found = [new for new in self._read(Sources(workers).all()) if not new.source.has_ended]
        self.clock = self.clock.read([(new.source.label, new.reading) for new in found], time.monotonic())
        self._printed = max([self._printed, *(new.new_words for new in found)])
        if self.clock.runs:
            self._output.has_new_words = self._has_new_words
        return self.clock.runs and not had_steps

    def _has_new_words(self, source: Source, received: int, text: bytes) -> bool:
        """Compares output with earlier output of the process, in the thread that reads it."""
        self._words[source], is_new = self._words.get(source, NewWords()).read(received, text)
        return is_new

    def overdue(
        self, running: Sequence[Worker], spinning: Sequence[Worker], now: float, *, others: Collection[int]
    ) -> str:
        """Returns why a look at the stacks is due, or an empty text.

        `spinning` are those of the `running` workers of which nothing but CPU time was seen, `others` the
        other nodes that still run.
        """
        if self.clock.is_overdue(self._timeout, self._printed, now):
            return self.clock.why_overdue(now)
        if self.clock.runs or not self.elsewhere.isdisjoint(others) or now < self._silent.due:
            return ""
        if not spinning or any(now - worker.output.last_output < self._timeout for worker in running):
            return ""
        return Message.of("no output for {} s, but CPU time is used", f"{self._timeout:.0f}")

    def stepping(self, now: float) -> frozenset[str]:
        """Returns the processes, by their labels, with a new step in the last half of the timeout."""
        since = now - self._timeout / 2
        return frozenset(label for label, stepped in self.clock.steps.items() if stepped >= since)

    @property
    def reports_next(self) -> bool:
        """True if the next look that finds no rank at work is to be reported."""
        return self.clock.looks == 0 if self.clock.runs else self._silent.looks == 1

    def looked(self, now: float, at_work: bool) -> int:
        """Records a look; returns the looks in a row that found no rank at work."""
        if self.clock.runs:
            self.clock = self.clock.looked(now, at_work)
            return self.clock.looks
        self._silent = self._silent.looked(now, self._timeout, at_work)
        # A healthy rank may be seen in the same wait twice.
        return max(0, self._silent.looks - 1)
