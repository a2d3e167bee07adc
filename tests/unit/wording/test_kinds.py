"""The kinds of a line: progress, result, warning."""

from __future__ import annotations

import pytest

from ma_boot.wording import ProgressLine, WarningLine, marked
from tests.unit.project.imports import ROOT, SOURCES, messages


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a result ", "a result"),
        ("lines \nbelow ", "lines\nbelow"),
        (WarningLine("x\n  y"), "warning: x\n  y"),
        (WarningLine("warning: x"), "warning: x"),
        (ProgressLine("x\n  y"), "x \n  y"),
    ],
)
def test_kind_of_a_line_can_be_read_from_the_line(text: str, expected: str) -> None:
    assert marked(text) == expected


@pytest.mark.invariant("No view leaves out a warning")
def test_no_message_of_a_node_spells_its_kind_itself() -> None:
    """Only `WarningLine` makes a warning: a text that only looks like one might be left out."""
    places = {
        str(path.relative_to(ROOT))
        for path in SOURCES
        for _, text in messages(path)
        if text.lower().startswith("warning: ")
    }
    assert places == {"ma_boot/wording.py", "ma_boot/cli/rank_table.py"}, (
        "the latter prints to standard error"
    )
