"""All starts of a job by its ledger: one row each, the use of the node time, and the restarts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ma_boot.errors import ExitCode
from ma_boot.report.job_ledger import BEGUN, REFUSED, SUCCEEDED, JobLedger, LedgerEntry

USEFUL, START, INPUTS, LOST, HANGS, END = "useful", "start", "inputs", "lost steps", "hangs", "end"
# Uses of the node time that was paid; together they are all of it.
USES = (USEFUL, START, INPUTS, LOST, HANGS, END)


# Seconds by which the clocks of the platform and of node 0 may differ.
CLOCKS_SECONDS = 10.0


class PlatformTimes(NamedTuple):
    """Times of a job by the platform, in seconds since 1970: its creation, and begin and end of each start.

    The begin is when its queue was over. 0 is unknown.
    """

    created: float = 0.0
    starts: tuple[tuple[float, float], ...] = ()

    @property
    def queues(self) -> list[tuple[float, float]]:
        """Begin and end of the queue before each start, as far as they are known."""
        ordered = sorted(self.starts)
        queued = zip([self.created, *(end for _, end in ordered)], (start for start, _ in ordered))
        return [(since, until) for since, until in queued if 0 < since <= until]


UNKNOWN_TIMES = PlatformTimes()


class JobStart(NamedTuple):
    """A start of a job with its entries in the order of time, at least one.

    `before` are the seconds since the end of the start before, or since the job's creation, None if that is
    unknown: the platform's queue, the image and the copy of the code. `queue` is the first part of it, by the
    platform's times.
    """

    entries: tuple[LedgerEntry, ...]
    before: float | None = None
    queue: float | None = None

    @property
    def number(self) -> int:
        """Number of the start, from 1 on."""
        return self.entries[0].key.start

    @property
    def last(self) -> LedgerEntry:
        """The end of the start as far as it is known."""
        return self.entries[-1]

    @property
    def attempts(self) -> tuple[LedgerEntry, ...]:
        """Attempts that have ended."""
        return tuple(entry for entry in self.entries if entry.key.outcome not in (BEGUN, REFUSED))

    @property
    def began(self) -> float:
        """Time of its begin in seconds since 1970; without its first entry it is computed."""
        first = self.entries[0]
        return first.at - (first.paid / first.nodes if first.nodes else 0.0)

    @property
    def whole(self) -> str:
        """Newest complete checkpoint at its end; empty if there is none."""
        return next((entry.whole for entry in reversed(self.entries) if entry.whole), "")

    @property
    def spent(self) -> dict[str, float]:
        """Node seconds that were paid, by their use."""
        return _sum_of([_uses(entry) for entry in self.entries])


class AllStarts(NamedTuple):
    """The starts of a job that its ledger has, oldest first."""

    starts: tuple[JobStart, ...] = ()

    @property
    def are_several(self) -> bool:
        """True for a job that was started again: only then reports show its starts."""
        return len(self.starts) > 1

    @property
    def spent(self) -> dict[str, float]:
        """Node seconds of all starts by their use."""
        return _sum_of([start.spent for start in self.starts])

    @property
    def between(self) -> float:
        """Seconds before and between the starts."""
        return sum(start.before or 0.0 for start in self.starts)

    @property
    def queued(self) -> float:
        """Seconds of the queues among them, by the platform's times."""
        return sum(start.queue or 0.0 for start in self.starts)

    @property
    def restarts(self) -> tuple[int, int]:
        """Number of restarts since the last success, and how many of them were in place.

        A job whose name is used again, by hand, has several successes.
        """
        run = [start for start in self.starts if start.last.key.outcome != REFUSED]
        ended = (at for at, start in enumerate(run[:-1], 1) if start.last.key.outcome == SUCCEEDED)
        recent = run[max(ended, default=0) :]
        in_place = sum(max(0, len(start.attempts) - 1) for start in recent)
        return max(0, len(recent) - 1) + in_place, in_place


def all_starts(ledger: JobLedger, platform: PlatformTimes = UNKNOWN_TIMES) -> AllStarts:
    """Returns the starts of a job with their times."""
    starts: list[JobStart] = []
    for entries in ledger.starts:
        start = JobStart(entries)
        if starts and _has_ended(starts[-1]):
            start = start._replace(before=max(0.0, start.began - starts[-1].last.at))
        starts.append(start)
    starts = list(_with_queues(starts, platform))
    return AllStarts(tuple(sorted(starts, key=lambda start: (start.number, start.began))))


def _with_queues(starts: Sequence[JobStart], platform: PlatformTimes) -> Iterator[JobStart]:
    left = platform.queues
    for start in starts:
        fit = [queue for queue in left if queue[1] <= start.began + CLOCKS_SECONDS]
        if fit:
            since, until = fit[-1]
            start = start._replace(before=max(until - since, start.began - since), queue=until - since)
            # A start in the same container has had no queue.
            left = [queue for queue in left if queue[1] > until]
        yield start


def starts_document(starts: AllStarts) -> dict[str, Any]:
    """Returns the starts as a JSON value."""
    restarts, in_place = starts.restarts
    return {
        "restarts": restarts,
        "restarts_in_place": in_place,
        "seconds_by_use": _rounded(starts.spent),
        "seconds_between": round(starts.between, 3),
        "seconds_queued": round(starts.queued, 3),
        "starts": [_start_document(start) for start in starts.starts],
    }


def _start_document(start: JobStart) -> dict[str, Any]:
    last = start.last
    names = ("node", "rank", "code", "words", "place", "kind", "rule", "server", "step")
    return {
        "start": start.number,
        "began": round(start.began, 3),
        "ended": last.at if _has_ended(start) else None,
        "seconds_before": start.before,
        "seconds_queued": start.queue,
        "outcome": last.key.outcome if _has_ended(start) else None,
        "nodes": last.nodes,
        "attempts": len(start.attempts),
        "whole": start.whole,
        "seconds_by_use": _rounded(start.spent),
        **{name: getattr(last, name) for name in names},
    }


def _rounded(spent: Mapping[str, float]) -> dict[str, float]:
    return {use: round(seconds, 3) for use, seconds in spent.items()}


def _has_ended(start: JobStart) -> bool:
    """Returns whether the end is known: a start that was killed leaves its begin, or its last attempt."""
    return start.last.key.outcome != BEGUN


def _uses(entry: LedgerEntry) -> dict[str, float]:
    """Returns the paid node seconds of an entry by their use; another program may have written anything."""
    if not entry.key.attempt:
        return {START: entry.paid}
    left, uses = entry.paid, {}
    lost = HANGS if entry.code == ExitCode.HUNG else LOST
    for use, seconds in (
        (USEFUL, entry.useful),
        (INPUTS, entry.inputs),
        (START, entry.start),
        (lost, entry.lost),
    ):
        uses[use] = min(seconds, left)
        left -= uses[use]
    return {**uses, END: left}


def _sum_of(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {use: sum(part.get(use, 0.0) for part in parts) for use in USES}
