"""Ends of script ranks: which are failures, which are silent, and which do not matter."""

from __future__ import annotations

import pytest

from ma_boot.node.scripts.script_rank import Process, RankNumber
from ma_boot.node.scripts.script_state import RankEnd, ScriptRank, ScriptRanksState, shows_failure

RAISED = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\nValueError: bad\n'
GRACE = 30.0


def rank(number: int, pid: int = 0, seen: float = 0.0, log: str | None = "log") -> ScriptRank:
    return ScriptRank(Process(pid or 100 + number, "1", 1, True), RankNumber(number, number), log, seen)


def end(
    of: ScriptRank, when: float = 10.0, code: int | None = None, output: str = "", **more: object
) -> RankEnd:
    return RankEnd(of, when, code, output, **more)  # type: ignore[arg-type]


def judged(state: ScriptRanksState, now: float = 40.0) -> tuple[list[int], list[int]]:
    """The failed and the silent ranks."""
    _, ends = state.judged(now, GRACE)
    return [one.rank.number.rank for one in ends.failed], [one.rank.number.rank for one in ends.silent]


def running(*ranks: ScriptRank) -> ScriptRanksState:
    return ScriptRanksState().with_found(ranks)


@pytest.mark.parametrize(
    ("code", "output", "failed", "silent"),
    [
        (1, "", [1], []),
        (137, "", [1], []),
        (0, RAISED, [], []),
        (None, RAISED, [1], []),
        (None, "Fatal Python error: Segmentation fault\n", [1], []),
        (None, "step 9\n", [], [1]),
        (None, "", [], [1]),
    ],
)
def test_end_is_judged_by_its_code_or_else_by_its_output(
    code: int | None, output: str, failed: list[int], silent: list[int]
) -> None:
    state = running(rank(0), rank(1)).with_end(end(rank(1), code=code, output=output))
    assert judged(state) == (failed, silent)


def test_out_of_memory_is_a_failure() -> None:
    state = running(rank(0), rank(1)).with_end(end(rank(1), oom="the kernel killed it"))
    assert judged(state) == ([1], [])


def test_end_is_judged_once_after_the_grace_period() -> None:
    state = running(rank(0), rank(1)).with_end(end(rank(1), code=1))
    assert state.next_judgement(GRACE) == 40.0
    assert judged(state, 39.9) == ([], [])
    later, ends = state.judged(40.0, GRACE)
    assert len(ends.failed) == 1
    assert (judged(later, 99.0), later.next_judgement(GRACE)) == (([], []), None)
    assert [one.rank.number.rank for one in later.failures()] == [1], "it stays known for the report"


def test_end_does_not_matter_once_all_others_have_ended() -> None:
    state = running(rank(0), rank(1)).with_end(end(rank(1), code=1)).with_end(end(rank(0), when=12.0, code=0))
    assert judged(state) == ([], [])
    assert len(state.failures()) == 1


def test_end_does_not_matter_if_only_later_ranks_run() -> None:
    """Of the next training of the script."""
    state = running(rank(1)).with_end(end(rank(1), code=1)).with_found([rank(0, pid=7, seen=11.0)])
    assert judged(state) == ([], [])


def test_rank_that_is_started_again_is_no_failure() -> None:
    state = running(rank(0), rank(1)).with_end(end(rank(1), code=1)).with_found([rank(1, pid=7, seen=12.0)])
    assert judged(state) == ([], [])
    assert state.failures() == []


def test_known_rank_keeps_its_first_look() -> None:
    state = running(rank(0)).with_found([rank(0, seen=99.0)])
    assert [one.seen for one in state.running.values()] == [0.0]


@pytest.mark.parametrize(
    ("code", "output", "log", "failed"),
    [
        (143, "", "log", False),
        (137, "", "log", False),
        (1, "", "log", True),
        (None, RAISED, "log", True),
        (None, RAISED, None, False),
    ],
)
def test_end_during_a_stop_is_a_failure_only_with_evidence_of_its_own(
    code: int | None, output: str, log: str | None, failed: bool
) -> None:
    assert end(rank(0, log=log), code=code, output=output, stopping=True).has_failed is failed


@pytest.mark.parametrize(
    ("output", "failure"),
    [
        (RAISED, True),
        (RAISED + "other rank\n" * 10, True),
        (RAISED + "other rank\n" * 11, False),
        (RAISED + "step 7, loss 0.3\n", False),
        ("run.sh: line 7: 4711 Killed  python train.py\n" + "other rank\n" * 40, True),
        ("run.sh: line 7: 4711 Segmentation fault      (core dumped) python train.py\n", True),
        ("run.sh: line 7: 4712 Killed  python train.py\n", False),
        ("terminate called after throwing an instance of 'c10::Error'\n", True),
        ("Aborted downloads: 0\n", False),
        ("step 1: Killed 3 stale workers\n", False),
        ("Exception ignored in: <function f at 0x7f>\n" + RAISED, False),
    ],
)
def test_output_shows_a_failure(output: str, failure: bool) -> None:
    assert shows_failure(output, 4711) is failure
