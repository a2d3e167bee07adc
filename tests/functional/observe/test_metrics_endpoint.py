"""The server of metrics, and clients that mean no good."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator

import pytest

from ma_boot.node.observe.endpoint import CLIENT_SECONDS, Endpoint


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    served = Endpoint("127.0.0.1:0")
    served.text = "ma_boot_node_cores 2\n"
    yield served
    served.close()


def address(endpoint: Endpoint) -> tuple[str, int]:
    host, _, port = endpoint.at.rpartition(":")
    return host, int(port)


def scraped(endpoint: Endpoint) -> str:
    with urllib.request.urlopen(f"http://{endpoint.at}/metrics", timeout=30) as answer:
        text: str = answer.read().decode()
        return text


def test_it_answers(endpoint: Endpoint) -> None:
    assert scraped(endpoint) == "ma_boot_node_cores 2\n"


def test_a_client_that_says_a_byte_now_and_then_has_its_time(endpoint: Endpoint) -> None:
    over = threading.Event()

    def drip(slow: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while not over.wait(0.2):
                slow.sendall(b"G")

    with socket.create_connection(address(endpoint)) as slow:
        thread = threading.Thread(target=drip, args=(slow,))
        thread.start()
        began = time.monotonic()
        assert scraped(endpoint)
        assert time.monotonic() - began < 3 * CLIENT_SECONDS
        over.set()
        thread.join(10)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\0" * 100_000,
        b"GET " + b"/" * 100_000,
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"POST /metrics HTTP/1.1\r\n\r\n",
    ],
    ids=["nothing", "zeros", "a long path", "another version", "another method"],
)
def test_after_whatever_is_said_the_next_client_is_answered(endpoint: Endpoint, sent: bytes) -> None:
    with socket.create_connection(address(endpoint)) as client, contextlib.suppress(OSError):
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass
    assert scraped(endpoint)


def test_beside_100_clients_that_say_nothing_a_scrape_is_answered_at_once(endpoint: Endpoint) -> None:
    others = threading.active_count()
    with contextlib.ExitStack() as clients:
        for number in range(100):
            client = clients.enter_context(socket.create_connection(address(endpoint)))
            client.sendall(b"GET /metrics HTTP/1.1\r\n"[: number % 20])
        began = time.monotonic()
        assert scraped(endpoint)
        assert time.monotonic() - began < 2
        assert threading.active_count() - others < 60


def test_a_flood_gets_at_most_20_answers_a_second(endpoint: Endpoint) -> None:
    began = time.monotonic()
    for _ in range(20):
        assert scraped(endpoint)
    assert time.monotonic() - began > 0.8


def test_all_interfaces_are_those_of_both_versions() -> None:
    served = Endpoint("0")
    port = served.at.rpartition(":")[2]
    with socket.create_connection(("127.0.0.1", int(port)), timeout=10):
        pass
    if socket.has_ipv6 and ":" in served.at.rpartition(":")[0]:
        with contextlib.suppress(OSError), socket.create_connection(("::1", int(port)), timeout=10):
            pass
    served.close()
