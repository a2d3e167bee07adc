"""Tables of the benchmarks, and budgets of the guard."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path
from types import ModuleType
from typing import Callable

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
Load = Callable[[str], ModuleType]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Imports a module of the benchmarks, as their own scripts do."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def test_table_replaces_only_its_predecessor(load: Load, tmp_path: Path) -> None:
    tables = load("tables")
    file = tmp_path / "README.md"
    file.write_text("before\n<!-- a -->\nold\n<!-- /a -->\nbetween\n<!-- b -->\nkept\n<!-- /b -->\n")
    for table in ("| 1 \\1 |", "| 2 |\n| 3 |"):
        tables.write("a", table, (file,))
        text = file.read_text()
        assert text.startswith(f"before\n<!-- a -->\n{table}\n\n20")
        assert text.endswith("<!-- /a -->\nbetween\n<!-- b -->\nkept\n<!-- /b -->\n")
    assert "old" not in text
    assert "| 1" not in text
    with pytest.raises(ValueError, match="<!-- c -->"):
        tables.write("c", "x", (file,))


def test_every_table_has_a_place_in_the_page(load: Load, tmp_path: Path) -> None:
    tables, launch, sync = load("tables"), load("launch"), load("sync")
    pages = [Path(shutil.copy(page, tmp_path)) for page in tables.PAGES]
    names = [
        "rank table",
        "where",
        *(measurement.name for measurement in launch.MEASUREMENTS),
        *(f"sync {row}" for row in sync.PLAIN),
    ]
    for name in [*names, f"sync {sync.PLAN}"]:
        tables.write(name, "x", pages)
    for row in sync.ROWS:
        tables.write(f"sync {row}", "x", pages, after=sync.place_of(row))


def test_new_table_is_placed_after_another(load: Load, tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    file.write_text("<!-- sync a -->\n<!-- /sync a -->\nafter\n")
    for table in ("| 1 |", "| 2 |"):
        load("tables").write("sync a TLS", table, (file,), after="sync a")
        assert file.read_text().startswith(
            f"<!-- sync a -->\n<!-- /sync a -->\n\n### a TLS\n\n<!-- sync a TLS -->\n{table}\n\n20"
        )
    assert "| 1 |" not in file.read_text()
    assert file.read_text().endswith("<!-- /sync a TLS -->\nafter\n")


def test_table_is_written_to_the_page_that_has_its_place_and_the_first_page_sums_up_all(
    load: Load, tmp_path: Path
) -> None:
    pages = (tmp_path / "README.md", tmp_path / "RESULTS.md")
    pages[0].write_text("<!-- summary -->\n<!-- /summary -->\n<!-- sync A up -->\n<!-- /sync A up -->\n")
    pages[1].write_text("<!-- stop -->\n<!-- /stop -->\nafter\n")
    table = "| launcher | s |\n|---|---|\n| ma_boot | 0.5 |\n| honcho | 1 |"
    load("tables").write("stop", table, pages)
    assert "| from SIGTERM to the exit (s) | 0.5 | 1 | honcho | 2.0 |" in pages[0].read_text()
    assert pages[1].read_text().startswith(f"<!-- stop -->\n{table}\n\n20")
    load("tables").write("sync A up TLS", table.replace("ma_boot", "ours"), pages, after="sync A up")
    assert pages[1].read_text().endswith("<!-- /sync A up TLS -->\n")
    assert "| upload of these over TLS (s) | 0.5 | 1 |" in pages[0].read_text()


def test_summary_has_the_fastest_peer_with_the_same_result(load: Load, tmp_path: Path) -> None:
    rows = "| ma_boot | 0.5 | 143 | 0 |\n| msrun | 0.1 | 143 | 8 |\n| torchrun | 0.2 | 1, not 143 | 0 |\n| honcho | 1 | 143 | 0 |"
    table = f"| launcher | median (s) | exit code | ranks left |\n|---|---|---|---|\n{rows}"
    file = tmp_path / "README.md"
    file.write_text("<!-- summary -->\n<!-- /summary -->\n<!-- stop -->\n<!-- /stop -->\n")
    load("tables").write("stop", table, (file,))
    first = file.read_text().partition("<!-- /summary -->")[0].splitlines()
    assert first[3].startswith("| from SIGTERM to the exit (s) | 0.5 | 1 | honcho | 2.0 | 20")
    load("tables").write("stop", table.replace("| honcho | 1 ", "| honcho | 0.4 "), (file,))
    assert "| 0.5 | 0.4 | **honcho** | 0.8 |" in file.read_text()


def test_guard_names_grown_figures(load: Load) -> None:
    guard = load("guard")
    budget = {"start": {"cpu": 2.0, "calls": 1000, "modules": 200}}
    assert guard.grown({"start": {"cpu": 2.5, "calls": 1040, "modules": 202}}, budget) == []
    assert guard.grown({"start": {"cpu": 2.7, "calls": 1060, "modules": 210}}, budget) == [
        "start: cpu 2.7, at most 2.6",
        "start: calls 1060, at most 1050",
        "start: modules 210, at most 203",
    ]
    assert guard.grown({"new": {"cpu": 0.1}}, budget) == ["new: cpu 0.1, at most 0"]


def test_every_row_has_a_budget(load: Load) -> None:
    guard = load("guard")
    budget = json.loads((BENCHMARKS / "budget.json").read_text())["rows"]
    assert list(budget) == [row.name for row in guard.ROWS]
    assert all(set(figures) == set(guard.MARGINS) for figures in budget.values())
