"""Output in words that a process has not printed before."""

from __future__ import annotations

import pytest

from ma_boot.node.observe.hangs.new_words import MOST_LINES, NewWords


def read(*texts: str) -> list[bool]:
    """Whether each of these outputs has new words, after the ones before it."""
    words, received, found = NewWords(), 0, []
    for text in texts:
        received += len(text)
        words, is_new = words.read(received, text.encode())
        found.append(is_new)
    return found


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-28 10:00:0{}.123 waiting for data",
        "[28/Nov 10:00:0{}] waiting for data",
        "179588157{}.370065 waiting for data",
        "2026-11-28T10:00:0{}Z waiting",
    ],
)
def test_line_that_differs_in_its_time_only_is_not_new(line: str) -> None:
    assert read(*(f"{line.format(second)}\n" for second in range(3))) == [True, False, False]


def test_evaluation_that_counts_its_batches_prints_new_words() -> None:
    assert read("eval 1/10\n", "eval 2/10\n", "eval 2/10\n") == [True, True, False]
    assert read("a\rb\r", "b\ra\r", "", "\n\n") == [True, False, False, False]


def test_oldest_lines_are_forgotten() -> None:
    many = "".join(f"line {number}\n" for number in range(MOST_LINES))
    assert read("first\n", many, "first\n") == [True, True, True]


def test_incomplete_line_that_is_read_again_is_compared_without_its_old_part() -> None:
    words, _ = NewWords().read(8, b"a\nwaits ")
    assert words.read(14, b"waits waits ") == (words._replace(position=14), False)
