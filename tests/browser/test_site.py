"""The site of the documents, built and opened."""

from __future__ import annotations

import html
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Response, expect

from tests.browser.conftest import Open, Opened
from tests.command_lines import shell_lines

ROOT = Path(__file__).parents[2]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make docs` builds it."""
    directory = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(directory)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    return directory


@pytest.fixture
def site(built: Path) -> Iterator[str]:
    """The address of the site on a server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(built)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.mark.timeout(180)
def test_a_reader_opens_searches_and_changes_the_language(chromium: Browser, site: str) -> None:
    reader = Opened(chromium.new_page())
    page = reader.page
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))  # a function that can have attributes
    page.goto(f"{site}index.html")
    page.get_by_role("link", name="from a script to a job on ModelArts").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(
        "Tutorial: from a script to a job on ModelArts¶"
    )
    assert found(page, "hang-timeout")
    page.goto(f"{site}zh-CN/how-to/restart.html")
    expect(page.get_by_role("heading", level=1)).to_contain_text("作业重启后从头开始")
    picture = page.locator("img[src$='checkpoints.svg']")
    assert picture.evaluate("image => image.complete && image.naturalWidth > 0")
    page.close()
    missing = {answer.url.rpartition("/")[2] for answer in answers if answer.status >= 400}
    assert missing <= {"sitemap.xml"}, "which the theme looks for beside each page"
    assert [text for text in reader.complaints if "Failed to load resource" not in text] == []
    assert [url for url in reader.requests if not url.startswith(site)] == [], (
        "nothing is loaded from elsewhere"
    )


def found(page: Page, words: str) -> list[str]:
    """Returns the addresses of the pages that the site's search finds."""
    field = page.locator("input.md-search__input")
    field.click()
    ready = re.compile("Type to start searching|键入以开始搜索")
    expect(page.locator(".md-search-result__meta")).to_have_text(ready, timeout=20_000)
    field.fill(words)
    field.press("Shift")  # the theme searches when a key is released
    expect(page.locator(".md-search-result__item").first).to_be_visible(timeout=20_000)
    return [str(link.get_attribute("href")) for link in page.locator(".md-search-result__item > a").all()]


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("start", "words", "page"),
    [
        ("index.html", "hang-timeout", "options.html"),
        ("how-to/restart.html", "hangs", "how-to/hang.html"),
        ("zh-CN/index.html", "卡死", "zh-CN/how-to/hang.html"),
        ("zh-CN/how-to/restart.html", "max-restarts", "zh-CN/options.html"),
    ],
)
def test_search_of_a_site_opened_as_files_finds_pages_in_the_language_of_the_reader(
    opened: Open, built: Path, start: str, words: str, page: str
) -> None:
    view = opened(str(built / start))
    addresses = found(view.page, words)
    assert (built / page).as_uri() in {address.partition("#")[0] for address in addresses}
    assert {"/zh-CN/" in address for address in addresses} == {"zh-CN" in start}
    assert [url for url in view.requests if not url.startswith("file:")] == []


def test_built_pages_have_the_commands_of_the_documents(built: Path) -> None:
    """tests/functional/cli/test_readme.py runs those of the documents."""
    documents = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "how-to").glob("*.md")]
    for document in documents:
        lines = [*shell_lines(document.read_text())]
        path = document.relative_to(ROOT / "docs").with_suffix(".html")
        page = built / (
            "zh-CN" / path.with_name(path.name.replace(".zh-CN", "")) if ".zh-CN" in path.name else path
        )
        blocks = re.findall(r"<pre>.*?<code.*?>(.*?)</code></pre>", page.read_text(), re.DOTALL)
        shown = html.unescape(re.sub(r"<[^>]*>", "", "\n".join(blocks))).replace("\\\n", "").splitlines()
        assert [line for line in lines if line not in shown] == [], document.name


def test_options_are_not_broken_after_a_hyphen_on_a_small_screen(opened: Open, built: Path) -> None:
    view = opened(str(built / "options.html"), window="narrow")
    options = view.page.locator("article code .option")
    assert options.count() > 100
    assert options.evaluate_all("all => all.filter(one => one.getClientRects().length > 1).length") == 0


@pytest.mark.parametrize(
    ("start", "tabs"),
    [
        ("index.html", ["Home", "Tutorial", "How-to", "Reference"]),
        ("zh-CN/index.html", ["首页", "教程", "操作指南", "参考"]),
    ],
)
def test_tabs_have_names_in_the_language_of_the_page(
    opened: Open, built: Path, start: str, tabs: list[str]
) -> None:
    assert opened(str(built / start)).seen(".md-tabs__link")[:4] == tabs


def test_chinese_sentences_have_no_blank_at_a_line_break_of_the_source(built: Path) -> None:
    broken = re.compile("[\u3001-\u9fff\uff01-\uff60]\n[\u3001-\u9fff\uff01-\uff60]")
    pages = list((built / "zh-CN").rglob("*.html"))
    assert len(pages) > 20
    found = {
        page.name: broken.findall(re.sub("<pre.*?</pre>", "", page.read_text(), flags=re.DOTALL))
        for page in pages
    }
    assert {name: places for name, places in found.items() if places} == {}
