"""Tracebacks of a node's ranks on the console: each once, and the ranks that print the same.

    first rank that prints it --> its lines at once, known from then on
    a further rank            --> held while its lines are those of a known one
                                    |- equal to its end           --> not printed, the rank is named
                                    `- a line differs, or too late --> printed as it is

The log files have all of them. An equal traceback is left out once for each rank and known traceback, so a
rank that raises twice is seen twice. The lines of a rank stay in their order.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Callable

from ma_boot.node.launch.launch_plan import WorkerSpec
from ma_boot.redact import without_secrets
from ma_boot.report.cause import readable
from ma_boot.report.journal import Journal
from ma_boot.report.traceback_lines import TracebackLines, is_traceback
from ma_boot.wording import Message, counted, ranks_text

# Seconds for which the lines of a rank are held, and after which the ranks with the same are named.
HELD_SECONDS = 1.0
# Tracebacks of a node that are known, and those of a rank that are compared: a program that logs exceptions
# all the time is not worth the CPU time.
MOST_KNOWN = 32
MOST_OF_A_RANK = 32


class KnownTraceback:
    """A traceback on the console: `ranks` have printed it, `folded` are those that are not named yet."""

    def __init__(self, traceback: TracebackLines, rank: int) -> None:
        self.traceback = traceback
        self.ranks = {rank}
        self.folded: list[int] = []

    def may_become(self, other: TracebackLines) -> bool:
        """Returns whether the other traceback is equal as far as both are known."""
        own = self.traceback
        if other.may_go_on and own.block == other.block:
            return True
        if own.is_over and len(other.lines) > len(own.lines):
            return False
        known = min(len(own.lines), len(other.lines))
        return own.lines[:known] == other.lines[:known]

    def is_equal(self, other: TracebackLines) -> bool:
        """Returns whether both are complete and equal."""
        return self.traceback.is_complete and other.is_complete and self.traceback.block == other.block


class TracebackFolds:
    """Tracebacks of the ranks of a node."""

    def __init__(self, journal: Journal) -> None:
        self.known: list[KnownTraceback] = []
        self.holding: list[RankTracebacks] = []
        self._journal = journal
        self._due = math.inf

    def of_rank(self, spec: WorkerSpec) -> RankTracebacks:
        """Returns what the output of a rank passes through on its way to the console."""
        return RankTracebacks(spec, self, self._journal.console.write)

    def patience(self) -> float:
        """Returns the seconds until `pass_time` has something to print."""
        soonest = min((holder.held_until for holder in self.holding), default=math.inf)
        return max(0.0, min(soonest, self._due) - time.monotonic())

    def pass_time(self, is_over: bool = False) -> None:
        """Prints lines that were held long enough, and names the ranks with the same traceback."""
        now = time.monotonic()
        for holder in [holder for holder in self.holding if is_over or now >= holder.held_until]:
            holder.release()
        if now < self._due and not is_over:
            return
        self._due = math.inf
        for known in self.known:
            if known.folded:
                self._name(known)
            known.folded = []

    def fold(self, known: KnownTraceback, rank: int) -> None:
        """Counts a rank whose traceback is not printed."""
        known.ranks.add(rank)
        known.folded.append(rank)
        self._due = min(self._due, time.monotonic() + HELD_SECONDS)

    def _name(self, known: KnownTraceback) -> None:
        number = counted(len(known.folded), "more rank", "more ranks")
        words = readable(without_secrets(known.traceback.words))
        self._journal.say(Message.of("{}: the same: {} ({})", number, ranks_text(known.folded), words))


class RankTracebacks:
    """Output of a rank on its way to the console; `held_until` is when held lines are printed at the latest.

    At most one of `_live`, the traceback that is being printed, and `_held`, one that may be known, is set.
    """

    def __init__(self, spec: WorkerSpec, folds: TracebackFolds, write: Callable[[bytes], None]) -> None:
        self.held_until = math.inf
        self._rank = -1 if spec.rank is None else spec.rank
        self._numbers = (spec.rank, spec.local_rank)
        self._skipped = len(f"[{spec.label}] ")
        self._folds = folds
        self._write = write
        self._seen = 0
        self._live: TracebackLines | None = None
        self._held: TracebackLines | None = None
        self._held_lines: list[bytes] = []

    @property
    def is_idle(self) -> bool:
        """True if no traceback has begun, so that only another one is of interest."""
        return self._live is None and self._held is None

    def write(self, data: bytes) -> None:
        """Prints complete lines with their prefix, but for those that are held."""
        self._print([shown for line in data[:-1].split(b"\n") for shown in self._take(line)])

    def release(self) -> None:
        """Prints the lines that are held, unless they are a traceback that is known."""
        self._print(self._decide())

    def end(self) -> None:
        """Prints what is left at the end of the output."""
        self._print(self._decide(is_last=True))
        self._forget_live()

    def _print(self, lines: Sequence[bytes]) -> None:
        if lines:
            self._write(b"\n".join([*lines, b""]))

    def _take(self, line: bytes) -> list[bytes]:
        """Takes the next line; returns the lines to print."""
        text = line[self._skipped :].decode("utf-8", "surrogateescape")
        begun = self._held or self._live
        if is_traceback(text) and not (begun is not None and begun.is_chained):
            printed = self._decide()
            self._forget_live()
            return [*printed, *self._begin(line)]
        if self._held is not None:
            self._held_lines.append(line)
            self._held.add(text)
            may_match = any(known.may_become(self._held) for known in self._candidates())
            return [] if may_match and not self._held.is_over else self._decide()
        if self._live is not None:
            self._live.add(text)
            if self._live.is_over:
                self._live = None
        return [line]

    def _begin(self, line: bytes) -> list[bytes]:
        self._seen += 1
        if self._seen > MOST_OF_A_RANK:
            return [line]
        begun = TracebackLines(self._numbers)
        if not self._candidates():
            self._become_known(begun)
            return [line]
        self._held, self._held_lines = begun, [line]
        self.held_until = time.monotonic() + HELD_SECONDS
        self._folds.holding.append(self)
        return []

    def _candidates(self) -> list[KnownTraceback]:
        return [known for known in self._folds.known if self._rank not in known.ranks]

    def _decide(self, is_last: bool = False) -> list[bytes]:
        """Ends the holding; returns the lines to print.

        Lines after a traceback may belong to its message, but only at the end of the output (`is_last`) that
        is certain.
        """
        held, lines = self._held, self._held_lines
        if held is None:
            return []
        self._held, self._held_lines = None, []
        self._folds.holding.remove(self)
        same = next((known for known in self._candidates() if known.is_equal(held)), None)
        if same is None:
            self._become_known(held)
            return lines
        self._folds.fold(same, self._rank)
        is_whole = is_last and same.may_become(held) and len(held.lines) <= len(same.traceback.lines)
        return [] if is_whole else lines[held.end :]

    def _become_known(self, traceback: TracebackLines) -> None:
        if len(self._folds.known) >= MOST_KNOWN:
            return
        self._folds.known.append(KnownTraceback(traceback, self._rank))
        self._live = None if traceback.is_over else traceback

    def _forget_live(self) -> None:
        if self._live is not None:
            self._live.is_over = True
        self._live = None
