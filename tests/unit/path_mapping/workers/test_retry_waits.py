"""How long a failing request waits before its next attempt."""

from __future__ import annotations

from typing import List

import pytest

from path_mapping.errors import SlowDown, Unreachable
from path_mapping.workers.retry import seconds_before


def waits(attempt: int, error: Unreachable) -> List[float]:
    """Many of the waits after this attempt."""
    return [seconds_before(attempt, error) for _ in range(500)]


@pytest.mark.parametrize(("attempt", "longest"), [(1, 0.3), (2, 0.6), (5, 4.8), (7, 10.0), (20, 10.0)])
def test_waits_double_up_to_ten_seconds(attempt: int, longest: float) -> None:
    found = waits(attempt, Unreachable("reset"))
    assert longest * 0.9 < max(found) <= longest
    assert longest * 0.1 <= min(found) < longest * 0.2


def test_what_the_service_asks_for_comes_first() -> None:
    assert min(waits(1, SlowDown("503", 7.0))) >= 7.0
