"""axe-core finds nothing in the pages of all ends of a job, in both colour schemes."""

from __future__ import annotations

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from ma_boot.report.page.compose import page_text
from tests.browser.conftest import Open
from tests.unit.report.golden.jobs import jobs, tails
from tests.unit.report.page.seen import line_of

JOBS = jobs()

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("job", JOBS)
def test_axe_finds_nothing(job: str, dark: bool, opened: Open, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(page_text(line_of(*JOBS[job]), tails(), {"/log/rank-3": "./rank-3"}))
    results = Axe().run(opened(str(page), dark=dark).page)
    assert results.violations_count == 0, results.generate_report()


def test_axe_notices_a_button_without_a_name(opened: Open, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text("<!doctype html><html lang=en><title>x</title><main><h1>x</h1><button></button></main>")
    assert "button-name" in Axe().run(opened(str(page)).page).generate_report()
