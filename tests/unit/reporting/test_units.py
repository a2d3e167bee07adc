"""Figures for people: durations, sizes, and the moments of the time axis."""

from __future__ import annotations

import pytest

from ma_boot.reporting import duration, size
from ma_boot.reporting.page.scale import ticks


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"), (0.04, "0.0 s"), (0.06, "0.1 s"), (99.9, "99.9 s"), (100, "1:40 min"), (119.6, "2:00 min"),
        (3599, "59:59 min"), (3599.6, "1:00:00 h"), (7445, "2:04:05 h"), (90000, "25:00:00 h"),
    ],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (99_400, "99.4 kB"), (99_500, "100 kB"), (999_400, "999 kB"),
        (999_500, "1.0 MB"), (3_140_000, "3.1 MB"), (2.5e9, "2.5 GB"), (7e12, "7.0 TB"), (9.994e14, "999 TB"),
        (1e15, "1.0 PB"), (1.2e18, "1200.0 PB"),
    ],
)  # fmt: skip
def test_sizes(count: float, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("seconds", "step"),
    [
        (0.007, 0.001), (0.014, 0.002), (0.035, 0.005), (0.07, 0.01), (0.14, 0.02), (0.35, 0.05), (0.7, 0.1),
        (1.4, 0.2), (3.5, 0.5), (7, 1), (14, 2), (35, 5), (70, 10), (105, 15), (210, 30), (420, 60), (840, 120),
        (2100, 300), (4200, 600), (6300, 900), (12600, 1800), (25200, 3600), (50400, 7200), (100800, 14400),
        (151200, 21600), (302400, 43200), (604800, 86400), (1209600, 172800), (4233600, 604800),
    ],
)  # fmt: skip
def test_the_steps_of_the_axis(seconds: float, step: float) -> None:
    """Seven steps fit the duration of each case; of the next smaller step there would be too many."""
    assert ticks(seconds)[0] == step
