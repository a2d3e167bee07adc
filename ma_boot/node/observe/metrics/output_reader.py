"""Reads step, loss and the user's values in the output of the ranks while it grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable

from ma_boot.node.observe.metrics.progress import Reading, Search, TrainingProgress, parse_pattern
from ma_boot.node.observe.metrics.source import Source


class OutputReader:
    """Reads the output of processes; keeps the readings of the current period, and of the whole run.

    `patterns` are the user's (`NAME=REGEX`); `warn` reports one that is dropped.
    """

    def __init__(self, patterns: Sequence[str], warn: Callable[[str], None]) -> None:
        self._patterns = tuple(map(parse_pattern, patterns))
        self._search = _search(warn) if self._patterns else lambda pattern, lines: None
        self._progress: dict[Source, TrainingProgress] = {}
        self.of_run: dict[Source, Reading] = {}
        self.of_period: dict[Source, Reading] = {}

    def read(self, sources: Sequence[Source]) -> list[tuple[Source, Reading]]:
        """Reads what was printed since the last call, and returns it for each process."""
        found = []
        for source in sources:
            if source not in self._progress:
                self._progress[source] = TrainingProgress(self._patterns, self._search)
            progress = self._progress[source]
            new = progress.read(*source.since(progress.position))
            self.of_period[source] = self.of_period.get(source, Reading()).updated_by(new)
            self.of_run[source] = self.of_run.get(source, Reading()).updated_by(new)
            found.append((source, new))
        return found

    @property
    def has_news(self) -> bool:
        """Tells if anything was read in this period."""
        return any(reading != Reading() for reading in self.of_period.values())

    def begin_period(self) -> None:
        """Forgets the readings of the period."""
        self.of_period = {}


def _search(warn: Callable[[str], None]) -> Search:
    # Imports `regex`, which takes 15 ms.
    from ma_boot.node.observe.metrics.pattern_search import PatternSearch

    return PatternSearch(warn).last_value
