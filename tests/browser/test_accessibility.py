"""axe-core finds nothing in the pages of all ends of a job, in both colour schemes."""

from __future__ import annotations

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from ma_boot.report.page.compose import page_text
from tests.browser.conftest import Open
from tests.synthetic import Writer
from tests.unit.report.golden.jobs import jobs, tails
from tests.unit.report.page.seen import line_of

JOBS = jobs()
# A log that is cut, in which a line is as long as a book; and one of lines that are invisible.
HOSTILE_TAILS = ("…\n\n" + "l" * 4000 + "\n\u202eabc\n" + "\n" * 300 + "last", "\u2066\n\u200b x\n")

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("job", JOBS)
def test_axe_finds_nothing(job: str, dark: bool, opened: Open, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(page_text(line_of(*JOBS[job]), tails(), {"/log/rank-3": "./rank-3"}))
    results = Axe().run(opened(str(page), dark=dark).page)
    assert results.violations_count == 0, results.generate_report()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("window", ["desktop", "narrow"])
def test_axe_finds_nothing_with_hostile_texts_of_ranks(
    window: str, dark: bool, opened: Open, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    page.write_text(hostile_page())
    view = opened(str(page), window=window, dark=dark)
    view.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    view.page.wait_for_selector("#logs .numbers > *", state="attached")
    results = Axe().run(view.page)
    assert results.violations_count == 0, results.generate_report()
    assert view.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is cut off"
    assert view.page.evaluate("document.querySelectorAll('#logs details').length") == 2
    assert view.complaints == []


def hostile_page() -> str:
    """A failed rank whose texts have no blanks, are longer than any window, or are invisible."""
    node = Writer(0, 10**12)
    hidden, shown = "\u202e\u2066\u200b", "</script>\u202e<b>"
    node.at(0, "job", name=shown, nodes=1, host="h" * 100, command="x" * 3000, program=shown)
    node.phase("run", 1, 60, "failed", shown)
    logs = {f"/log/{rank}-{'y' * 900}": tail for rank, tail in enumerate(HOSTILE_TAILS)}
    for rank, log_file in enumerate(logs):
        who = {"label": f"rank {rank}", "rank": rank}
        node.at(2, "start", **who, log_file=log_file)
        node.at(50 + rank, "exit", **who, code=1, stopped=False)
    node.at(5, "fault", target="z" * 100, fault="w" * 300)
    node.at(
        6,
        "channel",
        direction="output",
        name="n" * 99,
        files=3,
        url="obs://" + "k" * 400,
        local_dir="p" * 400,
    )
    node.at(8, "hang", labels=[hidden])
    stuck = {"label": "g" * 200, "seq": 1, "op": "o" * 200, "inside": "0", "outside": "", "place": "p" * 200}
    folded = [{"ranks": [0], "stack": "s" * 4000}, {"ranks": [1], "stack": hidden}]
    suspect = {"node": 0, "rank": 0, "why": "q" * 600}
    node.at(9, "stacks", folded=folded, suspect=suspect, stuck=[stuck])
    node.at(60, "end", exit_code=1, by="training", label="rank 0", cause="c\n" * 800, words="E: " + "v" * 300)
    line = line_of(node)
    tails = dict(zip([process.log_file for _, process in line.last_processes()], HOSTILE_TAILS))
    return page_text(line, tails, dict.fromkeys(tails, "./log"))


def test_axe_notices_a_button_without_a_name(opened: Open, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text("<!doctype html><html lang=en><title>x</title><main><h1>x</h1><button></button></main>")
    assert "button-name" in Axe().run(opened(str(page)).page).generate_report()
