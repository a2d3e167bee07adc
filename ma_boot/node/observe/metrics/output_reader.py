"""Reads step, loss and the user's values in the output of the ranks while it grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable

from ma_boot.node.observe.metrics.progress import Reading, Search, TrainingProgress, parse_pattern
from ma_boot.node.supervisor.worker_group import Worker


class OutputReader:
    """Reads the output of workers; keeps the readings of the current period, and of the whole run.

    `patterns` are the user's (`NAME=REGEX`); `warn` reports one that is dropped.
    """

    def __init__(
        self, workers: Sequence[Worker], patterns: Sequence[str], warn: Callable[[str], None]
    ) -> None:
        own = tuple(map(parse_pattern, patterns))
        search = _search(warn) if own else lambda pattern, lines: None
        self._workers = workers
        self._progress = [TrainingProgress(own, search) for _ in workers]
        self.of_run = [Reading() for _ in workers]
        self.of_period = [Reading() for _ in workers]

    def read(self) -> list[tuple[Worker, Reading]]:
        """Reads what was printed since the last call, and returns it for each worker."""
        found = []
        for at, (worker, progress) in enumerate(zip(self._workers, self._progress)):
            new = progress.read(*worker.output.since(progress.position))
            self.of_period[at] = self.of_period[at].updated_by(new)
            self.of_run[at] = self.of_run[at].updated_by(new)
            found.append((worker, new))
        return found

    @property
    def has_news(self) -> bool:
        """Tells if anything was read in this period."""
        return any(reading != Reading() for reading in self.of_period)

    def begin_period(self) -> None:
        """Forgets the readings of the period."""
        self.of_period = [Reading() for _ in self._workers]


def _search(warn: Callable[[str], None]) -> Search:
    # Imports `regex`, which takes 15 ms.
    from ma_boot.node.observe.metrics.pattern_search import PatternSearch

    return PatternSearch(warn).last_value
