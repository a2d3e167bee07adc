"""The server for Prometheus, and clients that do not behave."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
import urllib.request
from collections.abc import Iterator

import pytest

from ma_boot.node.observe.metrics.endpoint import CLIENT_SECONDS, Endpoint
from ma_boot.node.observe.metrics.record import HostSample, Sample

CORES = 'ma_boot_node_cores{node="3"} 2.0\n'


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    served = Endpoint("127.0.0.1:0", node=3)
    served.publish(Sample(0.0, (), HostSample(cores=2)))
    yield served
    served.close()


def address(endpoint: Endpoint) -> tuple[str, int]:
    host, _, port = endpoint.at.rpartition(":")
    return host, int(port)


def scrape(endpoint: Endpoint) -> str:
    with urllib.request.urlopen(f"http://{endpoint.at}/metrics", timeout=30) as answer:
        text: str = answer.read().decode()
        return text


def test_the_last_sample_is_served(endpoint: Endpoint) -> None:
    assert scrape(endpoint).endswith(CORES)
    endpoint.publish(Sample(0.0, (), HostSample(cores=4)))
    assert scrape(endpoint).endswith(CORES.replace("2.0", "4.0"))


def test_before_the_first_sample_the_answer_is_empty() -> None:
    with contextlib.closing(Endpoint("127.0.0.1:0")) as served:
        assert scrape(served) == ""


@pytest.mark.parametrize(
    "sent",
    [b"", b"\0" * 100_000, b"GET " + b"/" * 100_000, b"POST /metrics HTTP/1.1\r\n\r\n"],
    ids=["nothing", "zeros", "a long path", "another method"],
)
def test_after_an_invalid_request_the_next_client_is_answered(endpoint: Endpoint, sent: bytes) -> None:
    with socket.create_connection(address(endpoint)) as client, contextlib.suppress(OSError):
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass
    assert scrape(endpoint).endswith(CORES)


def test_a_client_that_goes_away_prints_no_traceback(
    endpoint: Endpoint, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_connection(address(endpoint)) as client:
        client.sendall(b"GET /metrics")
        # Closing then sends a reset.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert scrape(endpoint).endswith(CORES)
    time.sleep(0.1)
    assert capfd.readouterr().err == ""


def test_beside_silent_clients_a_scrape_is_answered_at_once(endpoint: Endpoint) -> None:
    with contextlib.ExitStack() as clients:
        for _ in range(50):
            clients.enter_context(socket.create_connection(address(endpoint)))
        began = time.monotonic()
        assert scrape(endpoint).endswith(CORES)
        assert time.monotonic() - began < 2


def test_a_silent_client_is_cut_off(endpoint: Endpoint) -> None:
    with socket.create_connection(address(endpoint), timeout=10 * CLIENT_SECONDS) as client:
        assert client.recv(1) == b""


def test_a_port_that_is_in_use_is_an_error(endpoint: Endpoint) -> None:
    with pytest.raises(OSError, match="in use"):
        Endpoint(endpoint.at)


def test_without_an_address_both_versions_of_ip_are_served() -> None:
    with contextlib.closing(Endpoint("0")) as served:
        port = int(served.at.rpartition(":")[2])
        for host in ["127.0.0.1", "::1"] if served.at.startswith("[") else ["127.0.0.1"]:
            # The machine may have no address of version 6.
            with contextlib.suppress(OSError) if host == "::1" else contextlib.nullcontext():
                socket.create_connection((host, port), timeout=10).close()
