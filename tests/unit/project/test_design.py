"""docs/design.md: every package has its chapter, and every module and test that it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import List, Set, Tuple

import pytest

from tests.unit.project.imports import ROOT as CODE
from tests.unit.project.imports import SOURCES
from tests.unit.project.test_architecture import PURE

ROOT = Path(__file__).parents[3]
PACKAGES = {str(path.parent.relative_to(CODE)) for path in SOURCES} | {"tests", "benchmarks"}
TESTS = {
    node.name
    for path in ROOT.glob("tests/**/test_*.py")
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
}


def names(text: str) -> List[str]:
    """What stands in backquotes."""
    return re.findall(r"`([^`\n]+)`", text)


def chapters() -> List[Tuple[Set[str], str]]:
    """The packages that each chapter is about, and its text; what comes before all of them is about none."""
    before, *parts = re.split(r"^## ", (ROOT / "docs" / "design.md").read_text(), flags=re.MULTILINE)
    titled = [part.partition("\n") for part in parts]
    return [(set(), before), *((set(names(title)), text) for title, _, text in titled)]


def test_every_package_has_one_chapter() -> None:
    written = [package for packages, _ in chapters() for package in packages]
    of_training = {"ma_boot/for_training/ma_boot", "ma_boot/for_training/path_mapping"}
    assert sorted(written) == sorted(PACKAGES - of_training | {"ma_boot/for_training"})


TITLES = ["+".join(sorted(packages)) or "all" for packages, _ in chapters()]


@pytest.mark.parametrize(("packages", "text"), chapters(), ids=TITLES)
def test_what_a_chapter_names_exists(packages: Set[str], text: str) -> None:
    drawn = re.findall(r"\b\w+\.py\b", "\n".join(line for line in text.splitlines() if line[:4] == "    "))
    for name in [*names(text), *drawn]:
        if re.fullmatch(r"test_\w+", name):
            assert name in TESTS, f"{name}: no such test"
        elif re.fullmatch(r"[\w./-]+\.(py|md|sh|toml)|(tests|ma_boot)/[\w/]+", name):
            paths = [name, *(f"{package}/{name}" for package in packages)]
            places = [root / path for root in (ROOT, CODE) for path in paths]
            assert any(place.exists() for place in places), f"{name}: no such file"


def test_what_is_called_pure_is_held_pure() -> None:
    lists = [
        (packages, names(listed))
        for packages, text in chapters()
        for listed in re.findall(r"Pure: ((?:`[^`]+`[^`.]*)+)", text)
    ]
    assert len(lists) > 6
    for packages, modules in lists:
        assert [name for name in modules if not any(f"{at}/{name}" in PURE for at in packages)] == []


def test_every_target_of_make_that_is_named_exists() -> None:
    named = re.findall(r"`make ([\w-]+)`", "".join(text for _, text in chapters()))
    assert named
    assert [target for target in named if f"\n{target}:" not in (ROOT / "Makefile").read_text()] == []


def test_enough_is_named_to_be_worth_it() -> None:
    text = "".join(text for _, text in chapters())
    assert len(set(names(text)) & TESTS) > 80
