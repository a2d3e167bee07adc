"""Rules over the starts of a job: by its ledger, whether another one can succeed. Pure.

A start ends at once only if everything is known and equal: a false stop costs more than a retry.
"""

from __future__ import annotations

from typing import NamedTuple

from ma_boot.node.peers.job_restart import (
    CONFIGURATION,
    DETERMINISTIC,
    HARDWARE,
    NO_RETRY_ON,
    FailureSignature,
    exact_words,
)
from ma_boot.report.job_ledger import FAILED, JobLedger, LedgerEntry, RunDigest
from ma_boot.wording import Message

# Earlier starts with the same failure after which another one ends at once, by the kind of the failure.
STARTS = {DETERMINISTIC: 2, CONFIGURATION: 2, NO_RETRY_ON: 1}


class RepeatedStart(NamedTuple):
    """A failure that this start would repeat, and the number of earlier starts that it has ended."""

    entry: LedgerEntry
    times: int

    @property
    def why(self) -> str:
        """The reason in words, and the remedy."""
        times = Message("once") if self.times == 1 else Message.of("{} times", self.times)
        words, place = self.entry.words, self.entry.place
        failure = Message.of("{} at {}", words, place) if place else words
        since = Message.of("no newer checkpoint since step {}", self.entry.whole)
        progress = since if self.entry.whole else Message("no complete checkpoint")
        return Message.of(
            "started {} before with the same failure ({}), {}; the code is the same. Change it, or set "
            "MABOOT_IGNORE_LEDGER=1",
            times,
            failure,
            progress,
        )


def repeated_start(ledger: JobLedger, now: RunDigest, saves_checkpoints: bool) -> RepeatedStart | None:
    """Returns the failure that this start would repeat; None if it may succeed.

    Without a complete checkpoint the progress is only known by the steps that the training has printed.
    """
    ends = ledger.ends()
    if not ends or not now.is_known:
        return None
    last, times = ends[0], 0
    for entry in ends:
        if not _is_same(entry, last, now):
            break
        times += 1
    if times < STARTS.get(last.kind, times + 1):
        return None
    if not last.whole:
        # A training may save where ma_boot does not see it; then its steps show that it has advanced.
        is_unknown = not saves_checkpoints and last.step is None and last.kind == DETERMINISTIC
        if is_unknown or any(end.step != last.step for end in ends[:times]):
            return None
    return RepeatedStart(last, times)


def broken_server(ledger: JobLedger) -> LedgerEntry | None:
    """Returns the end of the start before this one if its hardware has failed on a known server."""
    ends = ledger.ends()
    return ends[0] if ends and ends[0].kind == HARDWARE and ends[0].server else None


def _is_same(entry: LedgerEntry, last: LedgerEntry, now: RunDigest) -> bool:
    is_failure = entry.key.outcome == FAILED and bool(entry.words) and bool(entry.code)
    is_equal = (_signature(entry), entry.kind, entry.code) == (_signature(last), last.kind, last.code)
    return is_failure and is_equal and entry.digest == now and _is_same_step(entry.step, last.step)


def _is_same_step(step: int | None, other: int | None) -> bool:
    """Returns whether two starts have failed at the same step; a failure that comes and goes moves.

    A rank may have printed the next step before it was stopped.
    """
    return step == other if step is None or other is None else abs(step - other) <= 1


def _signature(entry: LedgerEntry) -> FailureSignature:
    return FailureSignature(exact_words(entry.words), entry.place, entry.whole)
