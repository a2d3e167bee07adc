"""When a failing request is given up."""

from __future__ import annotations

import math
import threading
import time
from typing import List

import pytest

from path_mapping.errors import Corrupted, Unreachable
from path_mapping.workers import RetryPolicy, Trouble, retrying

AWAY, WRONG = Unreachable("away"), Corrupted("wrong")


@pytest.mark.parametrize(
    ("policy", "error", "attempts", "now", "over"),
    [
        (RetryPolicy(), AWAY, 4, 1e6, False),
        (RetryPolicy(), AWAY, 5, 101, True),
        (RetryPolicy(60), AWAY, 500, 159, False),
        (RetryPolicy(60), AWAY, 1, 160, True),
        (RetryPolicy(0), AWAY, 1, 100, True),
        (RetryPolicy(60), WRONG, 5, 101, True),
        (RetryPolicy(math.inf, deadline=120), AWAY, 500, 119, False),
        (RetryPolicy(math.inf, deadline=120), AWAY, 1, 120, True),
    ],
)
def test_a_request_that_first_failed_at_100(
    policy: RetryPolicy, error: Unreachable, attempts: int, now: float, over: bool
) -> None:
    assert policy.is_over(error, attempts, 100, now) is over


def test_retries_end_at_the_deadline_and_each_is_told() -> None:
    told: List[Trouble] = []

    def work() -> None:
        raise Unreachable("away")

    begun = time.monotonic()
    with pytest.raises(Unreachable, match="away"):
        retrying(work, threading.Event(), RetryPolicy(math.inf, begun + 1), troubled=told.append)
    assert 1 <= time.monotonic() - begun < 5
    assert len(told) > 2
    assert {(one.error, one.since, one.until) for one in told} == {("away", told[0].since, begun + 1)}
    assert told[0].since >= begun
