"""The page of a run in a real Chromium: of a rehearsed job with 16 ranks and a made-up one with 512."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from ma_boot.report.page.compose import page_text
from ma_boot.report.timeline.events import read_events
from ma_boot.report.timeline.merge import timeline_of
from ma_boot.wording import Message, coded
from tests.browser.conftest import Open
from tests.functional.node import PROGRAMS
from tests.synthetic import measured_job, synthetic_job
from tests.unit.report.golden.jobs import jobs, tails
from tests.unit.report.ledgers import SURVIVED, node as node_of_starts
from tests.unit.report.page.seen import line_of

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
    shape = ["--nodes", "2", "--devices-per-node", "8"]
    files = ["--path-mapping", "mapping.py", "--obs-root", "obs"]
    words = ["print:<i>here</i>", "write:out/RANK:x", f"meet:{laptop}/here:16", "exit:7:15", "sleep"]
    done = subprocess.run(
        [sys.executable, "-m", "ma_boot", "--local", *shape, *files, "train.py", *words],
        cwd=laptop, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100, check=False,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 7, done.stdout
    (page,) = laptop.glob("ma_boot-rehearsal/*/report.html")
    return str(page)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of 64 nodes with eight ranks each."""
    line = timeline_of([read_events(text, str) for text in synthetic_job(64, 8, fails=133)])
    page = tmp_path_factory.mktemp("large") / "report.html"
    page.write_text(page_text(line, {f"/log/proc-rank-{rank}.txt": f"step {rank}\n" for rank in range(512)}))
    return str(page)


def page_with_logs(nodes: int, per_node: int) -> str:
    """The page of a job with metrics and long logs; the last rank but two fails, rank 3 is slow."""
    count = nodes * per_node
    files = measured_job(nodes, per_node, slow=3, fails=count - 3)
    line = timeline_of([read_events(text, str) for text in files])
    steps = "".join(f"step {step} loss: 0.5 a line of a log as trainings print them\n" for step in range(100))
    tails = {
        f"/log/proc-rank-{rank}.txt": f"{steps}[WARNING] rank {rank} <slow>\nlast" for rank in range(count)
    }
    return page_text(line, tails)


@pytest.fixture(scope="module")
def long_logs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of two nodes with eight ranks each."""
    page = tmp_path_factory.mktemp("long") / "report.html"
    page.write_text(page_with_logs(2, 8))
    return str(page)


@pytest.fixture(scope="module")
def rehearsed_exception(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a rank that raises."""
    laptop = tmp_path_factory.mktemp("raises")
    (laptop / "train.py").write_text("raise ValueError(\"no layer 'head' in the checkpoint\")\n")
    done = subprocess.run(
        [sys.executable, "-m", "ma_boot", "--local", "train.py"],
        cwd=laptop, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100, check=False,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 1, done.stdout
    assert done.stdout.splitlines()[-1].endswith("in the checkpoint, at raises0/train.py:1")
    (page,) = laptop.glob("ma_boot-rehearsal/*/report.html")
    return str(page)


@BOTH
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_rehearsed_job_of_16_ranks(rehearsed: str, opened: Open, window: str, dark: bool) -> None:
    view = opened(rehearsed, window=window, dark=dark)
    assert view.complaints == []
    assert view.requests == [f"file://{rehearsed}"]
    (headline,) = view.seen("h1")
    assert re.match(r"Rank 15 on node 1 failed first: it ended with exit code 7 after \d", headline)
    assert view.seen("#time .names i") == [f"rank {rank}" for rank in range(16)]
    assert view.page.locator("#time g").count() == 16
    assert "inputs" in " ".join(view.seen(".legend"))
    assert view.seen("#data tbody tr")
    assert "rank 15" in view.seen("#processes tbody tr")[0]
    assert view.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    background = view.page.evaluate("getComputedStyle(document.body).backgroundColor")
    lightness = sum(map(int, re.findall(r"\d+", background)[:3])) / 3
    assert lightness < 64 if dark else lightness > 192


@BOTH
def test_every_rank_is_drawn_where_it_ran(rehearsed: str, opened: Open, window: str) -> None:
    view = opened(rehearsed, window=window)
    lane = view.page.locator("#time .drawing").first.bounding_box()
    names = [name.bounding_box() for name in view.page.locator("#time .names i").all()]
    bars = [bar.bounding_box() for bar in view.page.locator("#time g").all()]
    assert len(names) == len(bars) == 16
    for name, bar in zip(names, bars):
        assert lane is not None
        assert name is not None
        assert bar is not None
        # The last rank to start runs for a moment only: its start lets all others go on.
        assert bar["width"] > lane["width"] / 100, "a rank that slept has a visible bar"
        assert lane["x"] - 8 <= bar["x"] <= bar["x"] + bar["width"] <= lane["x"] + lane["width"] + 8
        middles = [box["y"] + box["height"] / 2 for box in (name, bar)]
        assert abs(middles[0] - middles[1]) < 3, "beside its name"


def test_the_log_of_the_cause_is_open_the_others_open_on_a_click(rehearsed: str, opened: Open) -> None:
    logs = opened(rehearsed).page.locator("#logs details")
    assert logs.first.locator("pre").inner_text().strip() == "<i>here</i>"
    second = logs.nth(1)
    assert not second.locator("pre").is_visible()
    second.locator("summary").click()
    assert second.locator("pre").is_visible()


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


@pytest.mark.invariant("The page loads nothing and works without its script")
def test_without_javascript_the_essentials_are_shown_in_english(rehearsed: str, opened: Open) -> None:
    view = opened(rehearsed, language="zh-CN", script=False)
    assert "failed first" in view.seen("h1")[0]
    assert view.seen(".zh") == []
    assert len(view.seen("#time .names i")) == 16
    assert view.page.locator("#logs pre").first.is_visible()


@BOTH
def test_a_job_of_512_ranks(large: str, opened: Open, window: str) -> None:
    assert Path(large).stat().st_size < 1_000_000
    view = opened(large, window=window)
    assert view.complaints == []
    assert view.page.locator("#time g").count() == 512
    assert view.seen("#time .names b") == [str(node) for node in range(64)]
    assert view.seen("#time .names i.e-cause") == ["rank 133"]
    assert view.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    heights = [
        box["height"]
        for bar in view.page.locator("#time .drawing svg").all()[:8]
        if (box := bar.bounding_box())
    ]
    assert heights == [8 * 16] * 8, "eight ranks, each 16 pixels high"
    assert len(view.seen("#processes tbody tr")) == 2


@BOTH
@pytest.mark.parametrize("language", ["en-US", "zh-CN"])
def test_labels_do_not_collide(opened: Open, window: str, language: str, tmp_path: Path) -> None:
    for name, files in jobs().items():
        page = tmp_path / f"{name}.html"
        page.write_text(page_text(line_of(*files), tails()))
        assert opened(str(page), window=window, language=language).page.evaluate(COLLISIONS) == []


# Texts that are cut by their box, and labels of an axis or names of a lane that cover each other.
COLLISIONS = """() => {
  const all = (selector, from = document) => [...from.querySelectorAll(selector)].filter((one) => one.offsetParent);
  const box = (one) => one.getBoundingClientRect(), found = [];
  for (const phase of all('.phase')) for (const text of all('span, em', phase)) {
    const outer = box(phase), inner = box(text);
    if (inner.width && inner.top < outer.bottom - 1 && inner.right > outer.right + 1) found.push(phase.title);
  }
  for (const row of all('.moments')) {
    const labels = all('i', row).map(box).sort((a, b) => a.left - b.left);
    labels.slice(1).forEach((label, at) => { if (label.left < labels[at].right) found.push(row.innerText) });
  }
  for (const name of all('.names i, .names b')) if (name.scrollWidth > name.clientWidth + 1) found.push(name.innerText);
  return found;
}"""


@pytest.mark.parametrize("language", ["en-US", "zh-CN"])
def test_on_a_phone_no_line_of_a_log_or_traceback_is_cut(
    rehearsed_exception: str, opened: Open, language: str
) -> None:
    view = opened(rehearsed_exception, window="narrow", language=language)
    texts = view.page.locator("pre")
    assert texts.count() > 2
    for text in texts.all():
        assert text.evaluate("(pre) => pre.scrollWidth <= pre.closest('.end').clientWidth"), text.inner_text()
    assert re.search(r'File ".*train.py", line 1', view.seen("header pre")[0])


def test_ends_differ_without_colours_too(rehearsed: str, opened: Open) -> None:
    """In patterns of bars and swatches, in the shape at their end, and in a sign beside the name."""
    view = opened(rehearsed)
    style = "(one, name) => getComputedStyle(one)[name]"
    time = view.page.locator("#time")
    bars = {kind: time.locator(f"path.{kind}").first for kind in ("stopped", "ran", "quiet", "dot")}
    assert bars["stopped"].evaluate(style, "strokeDasharray") == "5px, 3px"
    assert bars["ran"].evaluate(style, "strokeDasharray") == "none"
    widths = [bars[kind].evaluate(style, "strokeWidth") for kind in ("quiet", "ran", "dot")]
    assert widths == ["5px", "10px", "13px"]
    assert "gradient" in view.page.locator(".legend .stopped").evaluate(style, "backgroundImage")
    sign = "(one) => getComputedStyle(one).getPropertyValue('--sign')"
    names = ("b.e-cause", "i.e-cause", "i.e-stopped")
    assert [time.locator(f".names {name}").first.evaluate(sign) for name in names] == ['"✗"', '"✗"', '"–"']
    shown = "(one) => getComputedStyle(one, '::before').content"
    assert time.locator(".names i.e-stopped").first.evaluate(shown) == '"–"'


def test_a_log_opens_at_its_end_also_without_a_script(long_logs: str, opened: Open) -> None:
    for script in (True, False):
        view = opened(long_logs, script=script)
        log = view.page.locator("#logs details").first
        log.locator("summary").click()
        box, text = log.locator(".end").bounding_box(), log.locator("pre").bounding_box()
        assert box is not None
        assert text is not None
        assert text["height"] > 2 * box["height"]
        assert abs(box["y"] + box["height"] - text["y"] - text["height"]) < 4


def test_the_search_shows_the_lines_that_match_in_all_logs(long_logs: str, opened: Open) -> None:
    view = opened(long_logs)
    view.page.locator("#search").fill("STEP 77 ")
    view.page.wait_for_selector("#found .en")
    assert view.seen("#found") == ["16 lines in 16 logs"]
    assert [mark.strip() for mark in view.seen("#logs pre mark")] == ["step 77"] * 16
    view.page.locator("#search").fill("rank 3 ")
    expect(view.page.locator("#logs details:not([hidden])")).to_have_count(1)
    assert view.seen("#logs details[open] summary") == ["rank 3 · node 0 · exit code 143 SIGTERM"]
    view.page.locator("#search").fill("")
    expect(view.page.locator("#logs details:not([hidden])")).to_have_count(16)
    view.page.locator("#bad").click()
    assert view.seen("#found") == ["16 lines in 16 logs"]
    assert view.seen("#logs pre")[0].strip() == "[WARNING] rank 13 <slow>"
    view.page.locator("#bad").click()
    view.page.locator("#every").click()
    assert len(view.seen("#logs pre")) == 16
    assert view.complaints == []


def test_the_lines_of_a_log_have_numbers_that_can_be_linked(
    long_logs: str, opened: Open, tmp_path: Path
) -> None:
    view = opened(long_logs)
    log = view.page.locator("#log-rank-3")
    log.locator("summary").click()
    expect(log.locator(".numbers a")).to_have_count(102)
    log.locator(".numbers a").nth(77).click()
    assert view.page.url.endswith("#log-rank-3:78")
    assert view.seen("#log-rank-3 .chosen") == ["78"]
    view.page.locator("#search").fill("step 77 ")
    view.page.wait_for_selector("#found .en")
    assert log.locator(".numbers").inner_text().split() == ["78"]

    page = tmp_path / "cut.html"
    page.write_text(Path(long_logs).read_text().replace("<pre>step 0", "<pre>…\nstep 0"))
    linked = opened(f"{page}#log-rank-4:-2")
    assert linked.seen("#log-rank-4 .chosen") == ["-2"]
    number, text = linked.page.locator("#log-rank-4 .chosen"), linked.page.locator("#log-rank-4 pre")
    assert text.inner_text().split("\n")[-2] == "[WARNING] rank 4 <slow>"
    assert linked.page.evaluate("a => a.getBoundingClientRect().top < innerHeight", number.element_handle())
    assert view.complaints == linked.complaints == []


def test_a_box_can_be_copied_and_times_are_the_readers(long_logs: str, opened: Open) -> None:
    view = opened(long_logs)
    view.page.locator("#logs .box").first.hover()
    view.page.locator("#logs .copy").first.click()
    view.page.wait_for_selector("#logs .copy.done")
    assert "[WARNING] rank 13 <slow>" in view.page.evaluate("navigator.clipboard.readText()")
    assert view.seen(".facts time") == ["2025-10-09 16:53:20 (UTC+8)"]
    assert opened(long_logs, script=False).seen(".facts time") == ["2025-10-09 08:53:20 UTC"]


@BOTH
def test_the_charts_are_on_the_axis_of_the_timeline(long_logs: str, opened: Open, window: str) -> None:
    view = opened(long_logs, window=window)
    boxes = [
        drawing.bounding_box() for drawing in view.page.locator("#time .drawing, #charts .drawing").all()
    ]
    assert len(boxes) == 2 + 14
    assert len({(round(box["x"]), round(box["width"])) for box in boxes if box}) == 1
    assert view.page.locator("#charts path.slow").count() == 6
    view.page.locator("#charts .drawing").first.hover(position={"x": 100, "y": 10})
    assert re.match(r"\d\d:\d\d:\d\d · \d\d:\d\d:\d\d$", view.seen(".hint")[0])
    assert view.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@BOTH
def test_all_starts_of_a_job_have_an_axis_of_their_own(tmp_path: Path, opened: Open, window: str) -> None:
    page = tmp_path / "report.html"
    page.write_text(page_text(line_of(node_of_starts(*SURVIVED)), {}))
    view = opened(str(page), window=window)
    assert view.page.locator("#starts .drawing g").count() == 3
    view.page.locator("#starts .drawing").hover(position={"x": 50, "y": 10})
    assert not view.page.locator(".hint").is_visible()
    view.page.locator("#time .drawing").first.hover(position={"x": 50, "y": 10})
    assert view.page.locator(".hint").is_visible()
    assert view.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_256_ranks_with_metrics_and_logs_are_small_and_open_within_a_second(
    opened: Open, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    page.write_text(page_with_logs(32, 8))
    assert page.stat().st_size < 2_000_000
    view = opened(str(page))
    timing = "performance.getEntriesByType('navigation')[0].loadEventEnd"
    took = []
    for _ in range(3):
        view.page.reload()
        took.append(float(view.page.evaluate(f"new Promise(done => setTimeout(() => done({timing}), 50))")))
    fastest = min(took)
    assert fastest > 0
    assert fastest < 1000, "milliseconds, by the browser's own clock"
    assert view.page.locator("#charts path.middle").count() > 5


@BOTH
@pytest.mark.parametrize("language", ["en-US", "zh-CN"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_cause_is_readable_without_scrolling(
    rehearsed_exception: str, opened: Open, window: str, language: str, dark: bool
) -> None:
    view = opened(rehearsed_exception, language=language, window=window, dark=dark)
    words = view.page.locator("h1 code")
    at = ", at" if language == "en-US" else "，位于"
    assert words.inner_text() == f"ValueError: no layer 'head' in the checkpoint{at} raises0/train.py:1"
    box = words.bounding_box()
    assert box is not None
    height = view.page.evaluate("innerHeight")
    assert 0 < box["y"] < box["y"] + box["height"] < height / 2
    (link,) = [link for link in view.page.locator("#logs .file a").all() if link.is_visible()]
    target = link.evaluate("link => link.href")
    assert "ValueError" in Path(target.removeprefix("file://")).read_text()


@BOTH
@pytest.mark.parametrize("language", ["en-US", "zh-CN"])
def test_an_oom_kill_is_readable_without_scrolling(
    opened: Open, tmp_path: Path, window: str, language: str
) -> None:
    files = measured_job(2, 2, fails=3)
    process = Message.of("{} process", 1)
    oom = Message.of("the kernel killed {} of this container (limit {} MiB)", process, 300)
    killed = json.dumps(coded({"stopped": False, "oom": oom}))[1:-1]
    line = timeline_of(
        [read_events(text.replace('"stopped": false, "oom": null', killed), str) for text in files]
    )
    page = tmp_path / "report.html"
    page.write_text(page_text(line, {"/log/proc-rank-3.txt": "loading the shards of the checkpoint\n"}))
    view = opened(str(page), language=language, window=window)
    (words,) = view.seen("h1 code")
    limit = "limit 300 MiB" if language == "en-US" else "上限 300 MiB"
    assert limit in words
    box = view.page.locator("h1 code:visible").bounding_box()
    assert box is not None
    assert 0 < box["y"] < box["y"] + box["height"] < view.page.evaluate("innerHeight") / 2
    assert view.page.locator("#charts .chart").count() > 5
    table = view.page.locator("#processes .scroll").first
    assert table.evaluate("table => table.scrollWidth <= table.clientWidth"), "no column is cut off"
    assert view.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert view.complaints == []


@pytest.mark.invariant("The page reads only files beside the events, and runs only its own scripts")
def test_a_broken_page_is_noticed(large: str, opened: Open, tmp_path: Path) -> None:
    """The checks above notice an error in a script, and what the page's policy blocks: an image from another
    host, a script that is not the page's own, and one of its own that was changed."""
    text = Path(large).read_text()

    def complaints(changed: str) -> list[str]:
        assert changed != text
        broken = tmp_path / "broken.html"
        broken.write_text(changed)
        return opened(str(broken)).complaints

    image = '<img src="http://127.0.0.1:9/x.png" onerror="oops()"></main><script>oops()</script>'
    blocked = complaints(text.replace("</main>", image))
    for what in ("Loading the image", "inline event handler", "inline script"):
        assert any(what in line and "Content Security Policy" in line for line in blocked), "\n".join(blocked)
    assert not any("oops is not defined" in line for line in blocked)
    (changed,) = complaints(text.replace("zh-CN' : 'en'", "zh-CN' : 'de'"))
    assert "inline script" in changed
    unrestricted = re.sub(r"script-src [^;]*", "script-src 'unsafe-inline'", text)
    assert any("oops" in line for line in complaints(unrestricted.replace("</main>", image)))
