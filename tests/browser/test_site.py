"""The site of the documents, built and opened."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Response, expect

from tests.browser.conftest import Opened

ROOT = Path(__file__).parents[2]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site, as `make docs` builds it."""
    directory = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(directory)]
    built = subprocess.run(words, cwd=ROOT, capture_output=True, check=False, text=True)
    assert built.returncode == 0, built.stderr
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(directory)))
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
    page.get_by_placeholder("Search").fill("hang-timeout")
    expect(page.locator(".md-search-result__item").first).to_be_visible(timeout=20_000)
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
