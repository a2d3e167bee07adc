"""A real Chromium for the tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Callable

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.requirement import unavailable
from tests.survivors import descendants, exclude

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
WINDOWS: dict[str, tuple[int, int]] = {"desktop": (1280, 900), "narrow": (390, 844)}


def program_of_browser() -> str | None:
    """The system's browser; None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="package")  # its event loop would prevent other tests from running their own
def chromium() -> Iterator[Browser]:
    """The system's browser; without one the tests are skipped."""
    program = program_of_browser()
    if program is None:
        unavailable(f"none of {', '.join(NAMES)} is installed (Debian: chromium)")
    before = descendants()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])  # tests may be root
        exclude(descendants() - before)
        yield browser
        browser.close()


class Opened:
    """An open page, with the browser's console messages, errors and requests."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def seen(self, selector: str) -> list[str]:
        """The texts of the visible elements that match."""
        return [element.inner_text() for element in self.page.locator(selector).all() if element.is_visible()]


Open = Callable[..., Opened]


@pytest.fixture
def opened(chromium: Browser) -> Iterator[Open]:
    """Opens a file, with the reader's language, window, colour scheme and JavaScript setting."""
    contexts = []

    def open_file(
        file: str, language: str = "en-US", window: str = "desktop", dark: bool = False, script: bool = True
    ) -> Opened:
        width, height = WINDOWS[window]
        context = chromium.new_context(
            locale=language,
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            java_script_enabled=script,
            timezone_id="Asia/Shanghai",
            permissions=["clipboard-read", "clipboard-write"],
        )
        contexts.append(context)
        view = Opened(context.new_page())
        view.page.goto(f"file://{file}")
        return view

    yield open_file
    for context in contexts:
        context.close()
