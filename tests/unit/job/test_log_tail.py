"""The end of a log: its last lines, and its last minutes by the times in the lines."""

from __future__ import annotations

import pytest

from ma_boot.desk.job_service.log_tail import LogTail, Recent, time_in

LOG = [
    "[ma_boot] job: done in 0.0 s: node 0 of 2",
    "[rank 0] 2026-11-22 13:00:00,100 - mindformers - INFO - begin",
    "[rank 0] a line without a time",
    "[rank 0] [INFO] RUNTIME(1): 2026-11-22-13:05:00.123.456 step 1",
    "[rank 1] 2026/11/22 13:09:59 step 2",
    "[rank 1] Traceback (most recent call last):",
    "[rank 0] 2026-11-22T13:10:00+08:00 step 3",
]


@pytest.mark.parametrize(
    ("seconds", "lines", "left"),
    [
        (600, None, LOG[1:]),
        (599, None, LOG[3:]),
        (300, None, LOG[3:]),
        (60, None, LOG[4:]),
        (0, None, LOG[6:]),
        (60, 2, LOG[5:]),
        (None, 3, LOG[4:]),
        (None, 0, []),
        (None, 99, LOG),
    ],
)
def test_tail_keeps_the_recent_lines(seconds: float | None, lines: int | None, left: list[str]) -> None:
    for size in (1, 3, len(LOG)):
        tail = LogTail(Recent(lines, seconds))
        for start in range(0, len(LOG), size):
            tail.add(LOG[start : start + size])
        assert tail.lines() == left


def test_log_without_times_is_kept_whole() -> None:
    tail = LogTail(Recent(seconds=60))
    tail.add(["a", "b"])
    assert (tail.lines(), tail.has_times) == (["a", "b"], False)
    tail.add(["2026-11-22 13:00:00 c"])
    assert (tail.lines(), tail.has_times) == (["2026-11-22 13:00:00 c"], True)


@pytest.mark.parametrize(
    "line", ["2026-13-45 13:00:00", "12026-11-2 13:00", "x" * 200 + "2026-11-22 13:00:00"]
)
def test_text_that_is_not_a_time_is_not_read_as_one(line: str) -> None:
    assert time_in(line) is None
