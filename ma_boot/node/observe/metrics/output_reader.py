"""Reads step, loss and the user's values in the output of the ranks while it grows."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Callable, NamedTuple

from ma_boot.node.observe.metrics.progress import Reading, Search, TrainingProgress, parse_pattern
from ma_boot.node.observe.metrics.source import Source

# News that wait for a subscriber; the oldest are dropped. One that has failed takes none any more.
MOST_NEWS = 4096


class OutputNews(NamedTuple):
    """New output of a process: the values in it, and its time (monotonic seconds) if it has new words."""

    source: Source
    reading: Reading
    new_words: float = -math.inf


ReadNews = Callable[[Sequence[Source]], list[OutputNews]]


class Readings:
    """The values of each process since the start of the run, and in the current period."""

    def __init__(self, read: ReadNews) -> None:
        self.of_run: dict[Source, Reading] = {}
        self.of_period: dict[Source, Reading] = {}
        self._read = read

    def read(self, sources: Sequence[Source]) -> list[OutputNews]:
        """Adds what was printed since the last call, and returns it."""
        found = self._read(sources)
        for source, new, _ in found:
            self.of_period[source] = self.of_period.get(source, Reading()).updated_by(new)
            self.of_run[source] = self.of_run.get(source, Reading()).updated_by(new)
        return found

    @property
    def has_news(self) -> bool:
        """Tells if anything was read in this period."""
        return any(reading != Reading() for reading in self.of_period.values())

    def begin_period(self) -> None:
        """Forgets the readings of the period."""
        self.of_period = {}


class OutputReader:
    """Reads the output of processes once for all subscribers, in the thread of the one that asks.

    `patterns` are the user's (`NAME=REGEX`); `warn` reports one that is dropped. `has_new_words` gets a
    process that has printed no step, the number of all bytes of its output, and the last of them.
    """

    def __init__(self, patterns: Sequence[str], warn: Callable[[str], None]) -> None:
        self.has_new_words: Callable[[Source, int, bytes], bool] = lambda source, received, text: False
        self._patterns = tuple(map(parse_pattern, patterns))
        self._search = _search(warn) if self._patterns else lambda pattern, lines: None
        self._progress: dict[Source, TrainingProgress] = {}
        self._queues: list[deque[OutputNews]] = []
        self._lock = threading.Lock()

    def subscribe(self) -> ReadNews:
        """Returns a function that reads what was printed since the last call, and returns all news.

        While another thread reads, it returns those so far: a network disk may block that one forever.
        """
        queue: deque[OutputNews] = deque(maxlen=MOST_NEWS)
        self._queues.append(queue)
        return partial(self._take, queue)

    def _take(self, queue: deque[OutputNews], sources: Sequence[Source]) -> list[OutputNews]:
        if self._lock.acquire(blocking=False):
            try:
                for source in sources:
                    self._read(source)
            finally:
                self._lock.release()
        return [queue.popleft() for _ in range(len(queue))]

    def _read(self, source: Source) -> None:
        if source not in self._progress:
            self._progress[source] = TrainingProgress(self._patterns, self._search)
        progress = self._progress[source]
        received, text, at = source.since(progress.position)
        reading = progress.read(received, text, at)
        # A step says more than words, whose comparison takes as long as the parsing.
        is_new = reading.step is None and self.has_new_words(source, received, text)
        news = OutputNews(source, reading, at if is_new else -math.inf)
        if news != OutputNews(source, Reading()):
            for queue in self._queues:
                queue.append(news)


def _search(warn: Callable[[str], None]) -> Search:
    # Imports `regex`, which takes 15 ms.
    from ma_boot.node.observe.metrics.pattern_search import PatternSearch

    return PatternSearch(warn).last_value
