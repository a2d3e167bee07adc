"""Starts the sampling of running processes, in a thread beside them, once it is worth its imports."""

from __future__ import annotations

import math
import os
import time
from threading import Event
from typing import TYPE_CHECKING, NamedTuple, Optional, Sequence, Tuple

from ma_boot.processes import SignalInbox, Task
from ma_boot.reporting import Journal
from ma_boot.supervisor.worker import Worker

if TYPE_CHECKING:
    from ma_boot.metrics import Watched

FINISH_SECONDS = 0.5  # for the last lines; a disk that does not answer may hold the thread forever


class Metrics(NamedTuple):
    """What is sampled: every `interval` seconds, 0 for never; `patterns` are the user's (`NAME=REGEX`).

    The last sample of this `node` is served at `port` (`PORT` or `ADDRESS:PORT`), if it is not empty.
    """

    interval: float = 0.0
    patterns: Tuple[str, ...] = ()
    port: str = ""
    node: int = 0


NOT_SAMPLED = Metrics()


class MetricsTask:
    """Samples workers from the end of the first interval on; nothing of it is loaded before."""

    def __init__(self, metrics: Metrics, inbox: SignalInbox, journal: Journal) -> None:
        self._metrics = metrics
        self._inbox = inbox
        self._journal = journal
        self._task: Optional[Task[None]] = None
        self._started = time.monotonic()
        first = 0.0 if metrics.port else metrics.interval
        self._due = self._started + first if metrics.interval else math.inf

    def __enter__(self) -> MetricsTask:
        return self

    def __exit__(self, *exc: object) -> None:
        """Ends the sampling, once it has read the last lines."""
        if self._task is not None:
            self._task.cancel()
            self._task.wait(lambda: None, time.monotonic() + FINISH_SECONDS)

    def patience(self) -> float:
        """Seconds until `check` should be called."""
        return max(0.0, self._due - time.monotonic())

    def check(self, workers: Sequence[Worker]) -> None:
        """Starts the sampling, if it is due."""
        if time.monotonic() < self._due:
            return
        self._due = math.inf
        try:
            self._task = Task("metrics", lambda cancel: self._sample(workers, cancel), self._inbox)
        except RuntimeError as error:  # the limit of threads
            self._journal.say(f"no metrics: {error}")

    def _sample(self, workers: Sequence[Worker], cancel: Event) -> None:
        try:
            from ma_boot.metrics import Sampler, Sampling

            places = dict.fromkeys(
                (*(worker.spec.cwd for worker in workers[:1]),
                 *(os.path.dirname(worker.spec.log_file) for worker in workers[:1]),
                 "/cache", "/dev/shm")
            )  # fmt: skip
            environ = workers[0].spec.environ if workers else {}
            options = Sampling(
                self._metrics.interval, self._metrics.patterns, tuple(places), environ, self._metrics.port,
                self._metrics.node,
            )  # fmt: skip
            say, event = self._journal.say, self._journal.event
            Sampler(options, [_watched(one) for one in workers], self._started, say, event).run(cancel)
        except Exception as error:  # no figure is worth a training
            self._journal.say(f"no metrics: {type(error).__name__}: {error}")


def _watched(worker: Worker) -> Watched:
    from ma_boot.metrics import Watched

    return Watched(
        worker.spec.label, worker.spec.rank, worker.pid, lambda: worker.exit is None, worker.output.since
    )
