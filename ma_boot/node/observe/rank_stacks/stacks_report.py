"""Report on the stacks of all ranks: equal stacks, the suspect, and the lines that are printed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ma_boot.node.environment.extras import install_command
from ma_boot.node.observe.collectives.desync import Desync, StuckGroup, lines_of
from ma_boot.node.observe.collectives.record_messages import encode_stuck
from ma_boot.node.observe.rank_stacks.stack_samples import STAYS, UNKNOWN
from ma_boot.node.observe.rank_stacks.stacks import Fold, RankAtHang, folded
from ma_boot.node.observe.rank_stacks.suspect import at_work, suspect, waits_text
from ma_boot.report.result import HangSuspect
from ma_boot.wording import ranks_text

LONGEST_STACK = 12_000  # characters of a stack in a message and in the events
MOST_SHOWN = 6  # folds that are printed
MOST_SHOWN_LINES = 40  # printed of a stack, and of the waits


class StacksReport(NamedTuple):
    """Conclusion from the stacks of all ranks.

    `waits` are lines on the waits between ranks that HCCL has logged; `silent` the nodes that did not answer;
    `working` the ranks at work for which the others wait, in which case there is no hang and no suspect.
    `busy` are the ranks besides the suspect that use CPU, and are not seen to wait. `stuck` are the
    collectives of PyTorch in which ranks wait.
    """

    folded: tuple[Fold, ...] = ()
    suspect: HangSuspect | None = None
    waits: tuple[str, ...] = ()
    silent: tuple[int, ...] = ()
    working: tuple[int, ...] = ()
    busy: tuple[int, ...] = ()
    stuck: tuple[StuckGroup, ...] = ()

    @classmethod
    def of(cls, ranks: Sequence[RankAtHang], silent: Sequence[int], is_look: bool = False) -> StacksReport:
        """Draws the conclusion; `silent` are the nodes that did not answer and are unreachable.

        `is_look` is true if all ranks have missed their steps or their output, whether idle or not.
        """
        working = () if silent else at_work(ranks, is_look)
        records = {at.rank: at.record for at in ranks if at.ended is None and at.record is not None}
        collectives = Desync.of(records)
        named = None if working else suspect(ranks, silent, collectives.accused)
        return cls(
            folded=tuple(Fold(fold.ranks, fold.stack[:LONGEST_STACK]) for fold in folded(ranks)),
            suspect=named,
            waits=tuple(waits_text({rank.rank: rank.waits_for for rank in ranks})),
            silent=tuple(silent),
            working=tuple(rank.rank for rank in working),
            busy=tuple(
                rank.rank
                for rank in sorted(ranks)
                if rank.ended is None
                and (rank.progress == STAYS or (is_look and rank.progress == UNKNOWN))
                and (named is None or rank.rank != named.rank)
            ),
            stuck=collectives.groups,
        )

    def fields(self) -> dict[str, Any]:
        """The fields of the event `stacks`, and of the message to other nodes, as plain values."""
        return {
            "folded": [fold._asdict() for fold in self.folded],
            "suspect": self.suspect._asdict() if self.suspect else None,
            "waits": list(self.waits),
            "silent": list(self.silent),
            "working": list(self.working),
            "busy": list(self.busy),
            "stuck": encode_stuck(self.stuck),
        }

    def rank_count(self) -> int:
        """Returns the number of ranks whose stacks, or ends, are known."""
        return sum(len(fold.ranks) for fold in self.folded)

    def lines(self, unranked: Sequence[tuple[str, str]] = ()) -> list[str]:
        """Formats the report for people; `unranked` are labels and stacks of processes that are no rank."""
        shown = [(ranks_text(fold.ranks), fold.stack) for fold in self.folded[:MOST_SHOWN]]
        lines = [_indented(f"{label}:", stack) for label, stack in [*unranked, *shown]]
        if len(self.folded) > MOST_SHOWN:
            lines.append(
                f"and {len(self.folded) - MOST_SHOWN} other stacks, all of them in the events of node 0"
            )
        lines += [f"HCCL: {line}" for line in self.waits[:MOST_SHOWN_LINES]]
        lines += lines_of(self.stuck)[:MOST_SHOWN_LINES]
        return [*lines, self._conclusion()]

    def _conclusion(self) -> str:
        if self.working:
            return f"no hang: {ranks_text(self.working)} at work; the others wait"
        if self.suspect:
            return f"suspected: {self.suspect}: {self.suspect.in_words()}"
        without = [rank for fold in self.folded if fold.stack.startswith("no stacks") for rank in fold.ranks]
        if without:
            is_all = len(without) == sum(len(fold.ranks) for fold in self.folded)
            of = "" if is_all else f" of {ranks_text(without)}"
            return f"cannot tell: no stacks{of} ({install_command('hang')})"
        if len(self.folded) == 1:
            return "cannot tell: no rank differs from the others"
        return "cannot tell: most ranks are not at one place"


def _indented(head: str, text: str) -> str:
    lines = text.rstrip("\n").split("\n")
    more = [f"... {len(lines) - MOST_SHOWN_LINES} lines more"] if len(lines) > MOST_SHOWN_LINES else []
    return "\n  ".join([head, *lines[:MOST_SHOWN_LINES], *more])
