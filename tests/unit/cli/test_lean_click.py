"""Without `inspect` click reads docstrings as with it."""

from __future__ import annotations

import inspect
from typing import List

from hypothesis import given
from hypothesis import strategies as st

from ma_boot.lean_click import Inspect


def lines(text: str) -> List[str]:
    """The lines as a help shows them: without blanks at their ends, and without empty ones around."""
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n").split("\n")


@given(st.lists(st.text("ab \t", max_size=12)).map("\n".join))
def test_indentation_is_removed_as_by_inspect(text: str) -> None:
    assert lines(Inspect.cleandoc(text)) == lines(inspect.cleandoc(text))


def test_anything_else_is_the_real_one() -> None:
    assert Inspect("inspect").isfunction is inspect.isfunction
