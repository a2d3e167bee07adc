"""The page of a run in a real Chromium: of a rehearsed job with 16 ranks and a made-up one with 512."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ma_boot.reporting.page.compose import page_text
from ma_boot.reporting.timeline.events import read_events
from ma_boot.reporting.timeline.merge import timeline_of
from tests.browser.conftest import Open
from tests.functional.node import PROGRAMS
from tests.synthetic import synthetic_job

pytestmark = pytest.mark.browser
BOTH = pytest.mark.parametrize("window", ["desktop", "narrow"])


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of two nodes with eight ranks each; the last rank fails."""
    laptop = tmp_path_factory.mktemp("laptop")
    (laptop / "train.py").write_text((PROGRAMS / "rank.py").read_text())
    (laptop / "obs" / "bucket" / "data").mkdir(parents=True)
    (laptop / "obs" / "bucket" / "data" / "x").write_bytes(bytes(3_000_000))
    mapping = {"input": {"data": "obs://bucket/data/"}, "output": {"out": "obs://bucket/out/"}}
    (laptop / "mapping.py").write_text(f"PATH_MAPPING_CONFIG = {mapping!r}\n")
    shape = ["--nodes", "2", "--devices-per-node", "8", "--rank-table-delay", "0.3"]
    files = ["--path-mapping", "mapping.py", "--obs-root", "obs"]
    words = ["print:<i>here</i>", "write:out/RANK:x", f"meet:{laptop}/here:16", "exit:7:15", "sleep"]
    done = subprocess.run(
        [sys.executable, "-m", "ma_boot", "--local", *shape, *files, "train.py", *words],
        cwd=laptop, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100, check=False,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 7, done.stdout
    (page,) = laptop.glob("ma_boot-rehearsal/*/*-report.html")
    return str(page)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of 64 nodes with eight ranks each."""
    line = timeline_of([read_events(text, str) for text in synthetic_job(64, 8, fails=133)])
    page = tmp_path_factory.mktemp("large") / "report.html"
    page.write_text(page_text(line, {f"/log/proc-rank-{rank}.txt": f"step {rank}\n" for rank in range(512)}))
    return str(page)


@BOTH
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_rehearsed_job_of_16_ranks(rehearsed: str, opened: Open, window: str, dark: bool) -> None:
    found = opened(rehearsed, window=window, dark=dark)
    assert found.complaints == []
    assert found.requests == [f"file://{rehearsed}"]
    (headline,) = found.seen("h1")
    assert re.match(r"Rank 15 on node 1 failed first: it ended with exit code 7 after \d", headline)
    assert found.seen("#time .names i") == [f"rank {rank}" for rank in range(16)]
    assert found.page.locator("#time g").count() == 16
    assert "inputs" in " ".join(found.seen(".legend"))
    assert found.seen("#data tbody tr")
    assert "rank 15" in found.seen("#processes tbody tr")[0]
    assert found.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    background = found.page.evaluate("getComputedStyle(document.body).backgroundColor")
    lightness = sum(map(int, re.findall(r"\d+", background)[:3])) / 3
    assert lightness < 64 if dark else lightness > 192


@BOTH
def test_every_rank_is_drawn_where_it_ran(rehearsed: str, opened: Open, window: str) -> None:
    found = opened(rehearsed, window=window)
    lane = found.page.locator("#time .drawing").first.bounding_box()
    names = [name.bounding_box() for name in found.page.locator("#time .names i").all()]
    bars = [bar.bounding_box() for bar in found.page.locator("#time g").all()]
    assert len(names) == len(bars) == 16
    for name, bar in zip(names, bars):
        assert lane is not None
        assert name is not None
        assert bar is not None
        assert bar["width"] > lane["width"] / 20, "a rank that slept has a visible bar"
        assert lane["x"] - 8 <= bar["x"] <= bar["x"] + bar["width"] <= lane["x"] + lane["width"] + 8
        middles = [box["y"] + box["height"] / 2 for box in (name, bar)]
        assert abs(middles[0] - middles[1]) < 3, "beside its name"


def test_the_end_of_a_log_opens_on_a_click(rehearsed: str, opened: Open) -> None:
    found = opened(rehearsed)
    first = found.page.locator("#logs details").first
    assert not first.locator("pre").is_visible()
    first.locator("summary").click()
    assert first.locator("pre").inner_text().strip() == "<i>here</i>"


@pytest.mark.parametrize("page", ["rehearsed", "large"])
def test_the_language_is_the_browsers(page: str, opened: Open, request: pytest.FixtureRequest) -> None:
    file: str = request.getfixturevalue(page)
    chinese = opened(file, language="zh-CN")
    assert "最先失败" in chinese.seen("h1")[0]
    assert chinese.seen("h2")[0] == "时间线"
    assert (
        chinese.page.evaluate(
            "getComputedStyle(document.querySelector('.nodes .names b'), '::before').content"
        )
        == '"节点 "'
    )
    assert chinese.seen(".en") == []
    english = opened(file, language="de-DE")
    assert english.seen("h2")[0] == "Timeline"
    assert english.seen(".zh") == []
    english.page.locator("#language").click()
    assert english.seen("h2")[0] == "时间线"
    assert chinese.complaints == english.complaints == []


def test_without_javascript_the_essentials_are_shown_in_english(rehearsed: str, opened: Open) -> None:
    found = opened(rehearsed, language="zh-CN", script=False)
    assert "failed first" in found.seen("h1")[0]
    assert found.seen(".zh") == []
    assert len(found.seen("#time .names i")) == 16
    found.page.locator("#logs summary").first.click()
    assert found.page.locator("#logs pre").first.is_visible()


@BOTH
def test_a_job_of_512_ranks(large: str, opened: Open, window: str) -> None:
    assert Path(large).stat().st_size < 300_000
    found = opened(large, window=window)
    assert found.complaints == []
    assert found.page.locator("#time g").count() == 512
    assert found.seen("#time .names b") == [str(node) for node in range(64)]
    assert found.seen("#time .names .hit")[1] == "rank 133"
    assert found.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    heights = [
        box["height"]
        for bar in found.page.locator("#time .drawing svg").all()[:8]
        if (box := bar.bounding_box())
    ]
    assert all(30 <= height <= 80 for height in heights), "eight ranks, each a few pixels high"
    assert len(found.seen("#processes tbody tr")) == 2


def test_a_broken_page_is_noticed(large: str, opened: Open, tmp_path: Path) -> None:
    """The checks above notice an error in a script, and an image from another host, which the page's policy blocks."""
    broken = tmp_path / "broken.html"
    text = Path(large).read_text()
    broken.write_text(
        text.replace("</main>", '<img src="http://127.0.0.1:9/x.png"></main><script>oops()</script>')
    )
    complaints = opened(str(broken)).complaints
    assert any("oops" in complaint for complaint in complaints)
    assert any("Content Security Policy" in complaint for complaint in complaints)
