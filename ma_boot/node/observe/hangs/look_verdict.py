"""Verdict of a look at ranks that use CPU without a new step or output. Pure.

a rank moves                                         at work
no steps are known, and a rank is not seen to wait   cannot tell, so no hang is reported
all but the suspect wait                             a hang, which may end the run
ranks stay at one place of their own code            a hang that is reported only: a single native call
                                                     may take long; of a single rank two looks must agree
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ma_boot.node.observe.rank_stacks.stack_samples import MOVES, STAYS, WAITS
from ma_boot.node.observe.rank_stacks.stacks_report import StacksReport
from ma_boot.wording import Message, ranks_text

# Looks in a row after which ranks that stay at one place have hung.
SURE_LOOKS = 2


class LookVerdict(NamedTuple):
    """`at_work` says why there is no hang, and is empty for one.

    `all_wait` is true if all but the suspect wait; `is_clear` if a rank is suspected, or only one process
    uses CPU.
    """

    at_work: str
    all_wait: bool = False
    is_clear: bool = False

    @classmethod
    def of(cls, report: StacksReport, unranked: Sequence[str], needs_waits: bool) -> LookVerdict:
        """Judges a report, and the progress of this node's processes that are no rank.

        `needs_waits` is true if no steps are known.
        """
        if report.working:
            return cls(Message.of("{} at work", ranks_text(report.working)))
        # MindSpore's scheduler is no rank, either; it says nothing about the ranks.
        processes = () if report.rank_count() else unranked
        if MOVES in processes:
            return cls(Message.of("the processes are at work"))
        all_wait = not report.busy and all(progress == WAITS for progress in processes)
        is_known = bool(report.rank_count() or processes)
        if needs_waits and not (all_wait and is_known):
            return cls(Message.of("cannot tell: it is not seen to wait"))
        has_stacks = not any(fold.stack.startswith("no stacks") for fold in report.folded)
        is_alone = len(report.busy) == report.rank_count() == 1 or [*processes] == [STAYS]
        is_clear = has_stacks and (is_alone or report.suspect is not None)
        return cls("", all_wait and is_known, is_clear)

    @property
    def may_end_run(self) -> bool:
        """False for a hang that is reported only, however often it is found."""
        return self.ends_run(SURE_LOOKS)

    def ends_run(self, looks: int) -> bool:
        """Returns whether a hang of these looks in a row may end the run."""
        return self.all_wait or (self.is_clear and looks >= SURE_LOOKS)
