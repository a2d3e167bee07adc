"""Durations, sizes, counts and ranges for people."""

from __future__ import annotations

import pytest

from ma_boot.wording import counted, duration, ranges, ranks_text, size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"), (0.04, "0.0 s"), (0.06, "0.1 s"), (99.9, "99.9 s"), (100, "1 min 40 s"), (119.6, "2 min 0 s"),
        (3599, "59 min 59 s"), (3599.6, "1 h 0 min"), (7445, "2 h 4 min"), (90000, "25 h 0 min"),
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
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([1, 2], "1-2"), ([5, 0, 1, 2, 2, 7, 8], "0-2, 5, 7-8"), ([0, 2], "0, 2")],
)
def test_ranges(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text
    assert ranges(numbers, "–") == text.replace("-", "–")


@pytest.mark.parametrize(
    ("ranks", "text"), [([3], "rank 3"), ([3, 3], "rank 3"), ([0, 1, 2, 8, 6], "ranks 0-2, 6, 8")]
)
def test_ranks(ranks: list[int], text: str) -> None:
    assert ranks_text(ranks) == text


def test_one_is_singular() -> None:
    assert [counted(count, "file") for count in (0, 1, 2)] == ["0 files", "1 file", "2 files"]
    assert [counted(count, "process", "processes") for count in (0, 1)] == ["0 processes", "1 process"]
