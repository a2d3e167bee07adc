"""docs/design.md has every room, docs/platform.md judges every fact; the files and tests that they name exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import List

from tests.unit.project.imports import ROOMS, ROOT as CODE

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "design.md").read_text()


def chapter(title: str) -> str:
    """The text below a title, up to the next one of its rank."""
    return re.split(r"^## ", TEXT.partition(f"## {title}\n")[2], flags=re.MULTILINE)[0]


def quoted() -> List[str]:
    """What stands in backquotes."""
    return re.findall(r"`([^`\n]+)`", TEXT)


def names_of_tests(path: Path) -> List[str]:
    """The tests of a file, as `test_x` or `TestY::test_x`."""
    tests = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            tests.append(node.name)
        elif isinstance(node, ast.ClassDef):
            tests += [f"{node.name}::{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)]
    return tests


def test_the_picture_has_every_room_and_fits_a_screen() -> None:
    picture = [line for line in chapter("The rooms").splitlines() if line.startswith("    ")]
    assert 10 < len(picture) <= 24
    drawn = set(re.findall(r"\w+", "\n".join(picture)))
    inside = {room.rpartition(".")[2] for room in ROOMS if ".for_training." not in room}
    assert inside - drawn == set()


def test_the_way_of_the_data_is_short() -> None:
    way = [line for line in chapter("The way of the data").splitlines() if line.startswith("    ")]
    assert 5 < len(way) <= 15


def test_every_file_and_folder_that_is_named_exists() -> None:
    named = [name for name in quoted() if re.fullmatch(r"(\w[\w.-]*/)+[\w.-]*|\w+\.(py|md|toml)", name)]
    assert len(named) > 20
    places = {
        name: [*(root / name for root in (ROOT, CODE)), *CODE.glob(f"ma_boot/**/{name}")] for name in named
    }
    assert [name for name, paths in places.items() if not any(path.exists() for path in paths)] == []


def test_every_invariant_has_tests_that_exist() -> None:
    rows = [line for line in chapter("What must not break").splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 25
    assert [row for row in rows if not re.search(r"`test_\w+`", row)] == []
    tests = {
        name.rpartition(":")[2] for file in ROOT.glob("tests/**/test_*.py") for name in names_of_tests(file)
    }
    assert set(re.findall(r"`(test_\w+)`", TEXT)) - tests == set()


def test_every_target_of_make_that_is_named_exists() -> None:
    named = re.findall(r"`make ([\w-]+)`", TEXT)
    assert [target for target in named if f"\n{target}:" not in (ROOT / "Makefile").read_text()] == []


ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "platform.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| fact ")
]


def test_every_fact_has_a_judgement_and_its_tests() -> None:
    assert len(ROWS) > 30
    for fact, judgement, tests in ROWS:
        assert re.match("same|simulated|not simulated", judgement), fact
        assert tests or judgement.startswith("not simulated"), fact


def test_every_test_that_a_fact_names_exists() -> None:
    named = [test for *_, cell in ROWS for test in re.findall(r"`(tests/[^`]+)`", cell)]
    assert len(named) > 25
    for test in named:
        file, _, name = test.partition("::")
        assert name in names_of_tests(ROOT / file), test
