"""A listing asks for its next page while the current one is worked on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

import pytest

from path_mapping.errors import Unreachable
from tests.transfers import SilentHandler, obs_store, serving

KEYS = [f"k{number:04}" for number in range(2500)]


class Pages:
    """Lists 2,500 keys by thousands; `hold` keeps the second page back, `broken` answers it with 500.

    `dropped`: the connection ends once, after so many bytes of the second page.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.second, self.hold, self.broken = threading.Event(), threading.Event(), False
        self.hold.set()
        self.dropped: int | None = None
        pages = self

        class Handler(SilentHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                marker = parse_qs(urlsplit(self.path).query).get("marker", [""])[0]
                pages.asked.append(marker)
                if marker == "k0999":
                    pages.second.set()
                    pages.hold.wait(30)
                keys = [key for key in KEYS if key > marker]
                rows = "".join(f"<Contents><Key>{key}</Key><Size>1</Size></Contents>" for key in keys[:1000])
                more = str(len(keys) > 1000).lower()
                body = f"<L><IsTruncated>{more}</IsTruncated>{rows}</L>".encode()
                length = str(len(body))
                if marker and pages.dropped is not None:
                    body, pages.dropped, self.close_connection = body[: pages.dropped], None, True
                    if not body:
                        return
                with suppress(ConnectionError):  # of who did not wait for it
                    self.send_response(500 if pages.broken and marker else 200)
                    self.send_header("Content-Length", length)
                    self.end_headers()
                    self.wfile.write(body)

        self.handler, self.url = Handler, ""


@pytest.fixture
def pages() -> Iterator[Pages]:
    served = Pages()
    with serving(served.handler) as served.url:
        yield served
        served.hold.set()


def test_every_page_is_asked_for_once_and_the_next_one_ahead(pages: Pages) -> None:
    listed = obs_store(pages.url).list("bucket", "k")
    first = [next(listed).key, next(listed).key]
    assert pages.second.wait(30)  # while the first page is worked on
    assert [*first, *(stored.key for stored in listed)] == KEYS
    assert pages.asked == ["", "k0999", "k1999"]


def test_a_reader_of_the_first_object_requests_one_page(pages: Pages) -> None:
    listed = obs_store(pages.url).list("bucket", "k")
    assert next(listed).key == "k0000"
    listed.close()  # type: ignore[attr-defined]
    assert pages.asked == [""]


def test_a_listing_that_is_left_ends_the_request_for_its_next_page(pages: Pages) -> None:
    pages.hold.clear()
    listed = obs_store(pages.url).list("bucket", "k")
    next(listed), next(listed)
    assert pages.second.wait(30)
    began = time.monotonic()
    listed.close()  # type: ignore[attr-defined]
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("sent", [0, 10_000])
def test_a_server_that_does_not_wait_until_its_answer_is_read_is_asked_again(pages: Pages, sent: int) -> None:
    pages.dropped = sent
    listed = obs_store(pages.url).list("bucket", "k")
    first = [next(listed).key, next(listed).key]
    assert pages.second.wait(30)
    assert [*first, *(stored.key for stored in listed)] == KEYS
    assert pages.asked == ["", "k0999", "k0999", "k1999"]


def test_objects_of_the_first_page_come_before_the_failure_of_the_second(pages: Pages) -> None:
    pages.broken = True
    listed: list[str] = []
    with pytest.raises(Unreachable, match="HTTP 500"):  # noqa: PT012 -- what came before counts
        for stored in obs_store(pages.url).list("bucket", "k"):
            listed.append(stored.key)
    assert listed == KEYS[:1000]
