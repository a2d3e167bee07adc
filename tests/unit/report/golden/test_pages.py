"""Whole pages, compared with kept ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from ma_boot.report.page.compose import page_text
from tests.unit.report.golden.jobs import jobs, tails
from tests.unit.report.golden.kept import golden
from tests.unit.report.page.seen import line_of

JOBS = jobs()


@pytest.mark.parametrize("name", JOBS)
def test_a_page_is_as_it_was(name: str) -> None:
    page = page_text(line_of(*JOBS[name]), tails(), {"/log/rank-3": "./rank-3"})
    head = page[page.index("<link") : page.index("<style>")]
    shown = head + page[page.index("<main") : page.index("<footer>")]
    assert shown == golden(Path(__file__).with_name("pages") / f"{name}.html", shown)
