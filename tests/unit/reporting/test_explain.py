"""Last words of an output, and what an exit code means."""

from __future__ import annotations

from typing import Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ma_boot.reporting.explain import (
    MOST_TRACEBACK_LINES,
    TAIL_LINES,
    explanation,
    last_exception,
    last_words,
)
from ma_boot.reporting.result import WorkerExit

SIMPLE = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
ValueError: no data"""
CHAINED = f"""{SIMPLE}

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "train.py", line 9, in <module>
    save()
OSError: [Errno 28] No space left on device"""


def ended(code: int, oom: Optional[str] = None) -> WorkerExit:
    return WorkerExit("rank 0", 0, 0, 1, code, None, 0, 1.0, False, "/log", oom=oom)


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("", ""),
        ("one\ntwo\n", "one\ntwo"),
        (f"before\n{SIMPLE}\n", SIMPLE),
        (f"{SIMPLE}\nnoise\n\nmore noise", f"{SIMPLE}\nnoise"),
        (f"{SIMPLE}\n\nlater\n{SIMPLE.replace('data', 'more')}", SIMPLE.replace("data", "more")),
        (f"before\n{CHAINED}\n", CHAINED),
        ("\r 10%\r 20%\nlast\r\n", " 20%\nlast"),
    ],
)
def test_last_words(output: str, words: str) -> None:
    assert "\n".join(last_words(output)) == words


@pytest.mark.parametrize(
    ("output", "exception"),
    [
        ("one\ntwo\n", None),
        (f"{SIMPLE}\nnoise", "ValueError: no data"),
        (CHAINED, "OSError: [Errno 28] No space left on device"),
        ("Traceback (most recent call last):\n  File", None),
        ("\n".join(f"[rank3]: {line}" for line in SIMPLE.split("\n")), "ValueError: no data"),
    ],
)
def test_the_last_exception(output: str, exception: Optional[str]) -> None:
    assert last_exception(output) == exception


def test_without_a_traceback_the_last_lines_count() -> None:
    assert last_words("\n".join(map(str, range(100)))) == [str(n) for n in range(100 - TAIL_LINES, 100)]


def test_a_deep_traceback_keeps_both_ends() -> None:
    frames = "\n".join(f'  File "x.py", line {n}, in f\n    f()' for n in range(500))
    words = last_words(f"Traceback (most recent call last):\n{frames}\nRecursionError: deep")
    assert len(words) == MOST_TRACEBACK_LINES
    assert words[0] == "Traceback (most recent call last):"
    assert words[-1] == "RecursionError: deep"


@given(st.text())
def test_the_last_words_of_any_output_fit_on_a_screen(output: str) -> None:
    assert len(last_words(output)) <= MOST_TRACEBACK_LINES
    assert len(last_words(f"{output}\n{SIMPLE}\n{output}")) <= MOST_TRACEBACK_LINES


@pytest.mark.parametrize(
    ("code", "oom", "part"),
    [
        (137, "the kernel killed 1 processes", "out of memory: the kernel killed 1 processes"),
        (247, "the kernel killed 1 processes", "out of memory"),
        (137, None, "no OOM kill"),
        (139, None, "segmentation fault"),
        (134, None, "abort"),
    ],
)
def test_a_code_with_a_meaning_is_explained(code: int, oom: Optional[str], part: str) -> None:
    assert part in (explanation(ended(code, oom)) or "")


def test_a_code_of_the_training_itself_is_not_explained() -> None:
    assert explanation(ended(3)) is None
