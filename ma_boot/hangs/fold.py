"""Folds the stacks of many ranks: equal ones once, with their ranks, those of few ranks first. Pure."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence, Tuple

from ma_boot.hangs.activity import activity
from ma_boot.hangs.rank_at_hang import RankAtHang
from ma_boot.hangs.stacks import threads_of, without_head


class Fold(NamedTuple):
    """Ranks whose main threads do the same at the same place, and the stacks of the first of them."""

    ranks: Tuple[int, ...]
    stack: str


def folded(ranks: Sequence[RankAtHang]) -> Tuple[Fold, ...]:
    """A rank is in exactly one fold; those without stacks are folded by the reason."""
    groups: Dict[Tuple[str, ...], List[RankAtHang]] = {}
    for one in sorted(ranks):
        groups.setdefault(_key(one), []).append(one)
    folds = [Fold(tuple(one.rank for one in group), _shown(group[0])) for group in groups.values()]
    return tuple(sorted(folds, key=lambda fold: (len(fold.ranks), fold.ranks)))


def _key(one: RankAtHang) -> Tuple[str, ...]:
    threads = threads_of(one.stack)
    return activity(threads).key if threads else (_shown(one),)


def _shown(one: RankAtHang) -> str:
    if one.ended is not None:
        return f"has ended with exit code {one.ended}"
    return without_head(one.stack) or "no stacks"
