"""Texts of two ranks that are the same failure, and those that are not."""

from __future__ import annotations

import pytest

from ma_boot.report.same_failure import common_form


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("rank {} on cuda:{}", (3, 3)),
        ("device_id={}, local_rank: {}", (1, 1)),
        ("(PID:{}, Device:{}, RankID:-1)", (77, 1)),
    ],
    ids=["rank", "names", "torch_npu"],
)
def test_numbers_of_the_own_rank_make_no_difference(first: str, second: tuple[int, ...]) -> None:
    zero = first.format(*(0 if number < 16 else 99 for number in second))
    assert common_form(zero, (0, 0)) == common_form(first.format(*second), (second[-1], second[-1]))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("<A object at 0x7f12aa>", "<A object at 0x7f9911>"),
        ("connect to 10.0.0.1:29500", "connect to 10.0.0.12:41000"),
        ("at 2026-01-02-03:04:05.123", "at 2026-01-02-03:04:06.9"),
    ],
    ids=["object", "host", "time"],
)
def test_addresses_and_times_make_no_difference(first: str, second: str) -> None:
    assert common_form(first, (0,)) == common_form(second, (1,))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("tensor has rank 3", "tensor has rank 4"),
        ("loss is 0.5", "loss is 0.7"),
        ('File "a.py", line 1234', 'File "a.py", line 1235'),
        ("low_rank=8", "low_rank=16"),
        ("step 100", "step 200"),
    ],
)
def test_other_numbers_are_facts(first: str, second: str) -> None:
    assert common_form(first, (0,)) != common_form(second, (1,))
