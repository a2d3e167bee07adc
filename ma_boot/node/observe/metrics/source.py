"""Processes that are sampled: those that ma_boot has started, and the ranks that these have started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ma_boot.node.supervisor.worker_group import Worker


class Source(Protocol):
    """A process with its output; `label` is its name in the samples."""

    label: str
    pid: int

    @property
    def rank(self) -> int | None:
        """The number of the rank; None for a process that is no rank."""

    @property
    def has_ended(self) -> bool:
        """True once the process has ended."""

    def since(self, position: int) -> tuple[int, bytes, float]:
        """Returns the number of all bytes of its output, the last after `position`, and their time."""


class WorkerSource:
    """A process that ma_boot has started; all sources of one process are equal."""

    def __init__(self, worker: Worker) -> None:
        self.label = worker.spec.label
        self.rank = worker.spec.rank
        self.pid = worker.pid
        self.since = worker.output.since
        self._worker = worker

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WorkerSource) and other._worker is self._worker

    def __hash__(self) -> int:
        return id(self._worker)

    @property
    def has_ended(self) -> bool:
        """True once the end of the process is recorded."""
        return self._worker.exit is not None


class Sources:
    """All processes of a run that are sampled. Script ranks may be added at any time.

    A rank that its script starts again takes the place of the earlier process.
    """

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers
        self._of_workers = [WorkerSource(worker) for worker in workers]

    def all(self) -> list[Source]:
        """Returns the processes in a stable order: workers first, then script ranks by their numbers."""
        # The observer of script ranks may append meanwhile, which a copy survives.
        started = [rank for worker in self._workers for rank in tuple(worker.started_ranks)]
        latest = {rank.rank: rank for rank in started}
        return [*self._of_workers, *(latest[number] for number in sorted(latest))]
