"""docs/platform.md: every fact has a judgement, and every test that it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import List

ROOT = Path(__file__).parents[3]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "platform.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| fact ")
]


def names(path: Path) -> List[str]:
    """The tests of a file, as `test_x` or `TestY::test_x`."""
    found = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.append(node.name)
        elif isinstance(node, ast.ClassDef):
            found += [f"{node.name}::{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)]
    return found


def test_every_fact_has_a_judgement_and_its_tests() -> None:
    assert len(ROWS) > 30
    for fact, judgement, tests in ROWS:
        assert re.match("same|simulated|not simulated", judgement), fact
        assert tests or judgement.startswith("not simulated"), fact


def test_every_test_that_is_named_exists() -> None:
    named = [test for *_, cell in ROWS for test in re.findall(r"`(tests/[^`]+)`", cell)]
    assert len(named) > 25
    for test in named:
        file, _, name = test.partition("::")
        assert name in names(ROOT / file), test
