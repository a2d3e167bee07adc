"""Verdict of a look at ranks that use CPU without a new step."""

from __future__ import annotations

from ma_boot.node.observe.hangs.look_verdict import LookVerdict
from ma_boot.node.observe.rank_stacks.stack_samples import MOVES, STAYS, UNKNOWN, WAITS
from ma_boot.node.observe.rank_stacks.stacks import RankAtHang
from ma_boot.node.observe.rank_stacks.stacks_report import StacksReport

REDUCE = 'Thread 7 (idle): "MainThread"\n    all_reduce (torch/distributed/c10d.py:9)\n    f (train.py:9)\n'
OWN = 'Thread 7 (active): "MainThread"\n    load (train.py:60)\n    f (train.py:8)\n'


def verdict(*ranks: tuple[str, str], needs_waits: bool = False) -> LookVerdict:
    """The verdict on ranks with these stacks and this progress."""
    found = [RankAtHang(at, 0, stack, progress=progress) for at, (stack, progress) in enumerate(ranks)]
    return LookVerdict.of(StacksReport.of(found, (), is_look=True), (), needs_waits)


def test_rank_that_moves_is_at_work() -> None:
    assert verdict((REDUCE, WAITS), (OWN, MOVES)).at_work == "rank 1 at work"


def test_hang_ends_the_run_at_once_if_all_but_the_suspect_wait() -> None:
    found = verdict((REDUCE, WAITS), (OWN, STAYS), (REDUCE, WAITS))
    assert found.at_work == ""
    assert found.ends_run(1)


def test_ranks_at_one_place_of_their_own_code_end_no_run_without_a_suspect() -> None:
    found = verdict((OWN, STAYS), (OWN, STAYS))
    assert found.at_work == ""
    assert not found.ends_run(9)


def test_single_rank_ends_the_run_once_two_looks_agree() -> None:
    found = verdict((OWN, STAYS))
    assert [found.ends_run(looks) for looks in (1, 2)] == [False, True]


def test_ranks_without_stacks_end_no_run() -> None:
    found = verdict(("no stacks: py-spy is not installed", UNKNOWN))
    assert (found.at_work, found.ends_run(9)) == ("", False)


def test_without_steps_only_waits_are_a_hang() -> None:
    assert verdict((REDUCE, WAITS), needs_waits=True).ends_run(1)
    assert verdict((OWN, STAYS), needs_waits=True).at_work.startswith("cannot tell")
    assert LookVerdict.of(StacksReport(), (), needs_waits=True).at_work.startswith("cannot tell")


def test_processes_that_are_no_rank_count_where_there_is_none() -> None:
    assert LookVerdict.of(StacksReport(), (MOVES,), needs_waits=False).at_work
    assert LookVerdict.of(StacksReport(), (STAYS,), needs_waits=False).ends_run(2)
    assert not LookVerdict.of(StacksReport(), (UNKNOWN,), needs_waits=False).ends_run(9)
