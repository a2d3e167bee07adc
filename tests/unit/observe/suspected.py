"""The suspect of a job, where there has to be one."""

from __future__ import annotations

from collections.abc import Sequence

from ma_boot.node.observe.rank_stacks.stacks import RankAtHang
from ma_boot.node.observe.rank_stacks.suspect import suspect
from ma_boot.report.result import HangSuspect


def suspected(ranks: list[RankAtHang], silent: Sequence[int] = ()) -> HangSuspect:
    """The suspect of a job in which there is one."""
    named = suspect(ranks, silent)
    assert named is not None
    return named
