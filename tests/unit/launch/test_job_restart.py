"""Node 0's decision after an attempt: all start again, or none."""

from __future__ import annotations

from typing import Dict, Sequence

import pytest
from hypothesis import given, strategies as st

from ma_boot.node.job_restart import AttemptEnd, Failed, decide, failure_of, read_end, read_verdict
from ma_boot.reporting import Cause

BAD = Cause(1, 3, 1, "ValueError: bad label 91", 5.0, place="train.py:7")
BOTH = {0: AttemptEnd(1, whole="20"), 1: AttemptEnd(1, whole="20")}
SAME = Failed(BAD.words, BAD.place, "20")


@pytest.mark.parametrize(
    ("ends", "budget", "earlier", "again", "why"),
    [
        (BOTH, 1, [], True, "node 1, rank 3: ValueError: bad label 91, at train.py:7"),
        (BOTH, 1, [SAME._replace(words="other")], False, "the job's 1 restart is used up"),
        (BOTH, 3, [SAME], False, "the same failure came twice without a newer whole checkpoint"),
        (BOTH, 3, [SAME._replace(whole="10")], True, str(BAD)),
        (BOTH, 3, [SAME._replace(place="train.py:9")], True, str(BAD)),
        ({**BOTH, 1: AttemptEnd(1, "exit code 2 means a usage error")}, 3, [], False,
         "node 1: exit code 2 means a usage error"),
    ],
)  # fmt: skip
def test_the_rule_that_decides_is_named(
    ends: Dict[int, AttemptEnd], budget: int, earlier: Sequence[Failed], again: bool, why: str
) -> None:
    assert decide(1, ends, budget, BAD, earlier)[1:] == (again, why)


def test_a_hang_is_worth_a_restart() -> None:
    assert decide(1, BOTH, 1, None, []).again


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["", "10", "20"])), max_size=12),
    st.integers(0, 5),
)
def test_no_schedule_of_failures_uses_more_than_the_budget(
    failures: Sequence[tuple[str, str]], budget: int
) -> None:
    earlier: list[Failed] = []
    for number, (words, whole) in enumerate(failures, 1):
        cause, ends = BAD._replace(words=words), {0: AttemptEnd(number, whole=whole)}
        if not decide(number, ends, budget, cause, earlier).again:
            break
        earlier.append(failure_of(ends, cause))
    assert len(earlier) <= budget
    assert len(set(earlier)) == len(earlier), "nothing is tried again in the same way"


@pytest.mark.parametrize(
    "body",
    [{}, {"attempt": "1", "final": "", "whole": ""}, {"attempt": 1, "final": 3, "whole": ""}, {"again": 1},
     {"attempt": 1, "again": "yes", "why": ""}],
)  # fmt: skip
def test_what_is_no_message_of_a_restart_is_none(body: Dict[str, object]) -> None:
    assert read_end(body) is None
    assert read_verdict(body) is None
