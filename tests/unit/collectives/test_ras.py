"""NCCL's RAS, asked by its protocol of lines: a server with the answers that NCCL's source has."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ma_boot.node.observe.collectives.ras import ask_ras

REPORT = (
    "NCCL version 2.28.3 compiled with CUDA 13.0\n\nJob summary\n===========\n\n\x1b[2JGroup 1  2 nodes\n"
)


@contextmanager
def server(**answers: str) -> Iterator[dict[str, str]]:
    """Answers commands by their first word; STATUS ends the connection, as NCCL's server does."""
    heard: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rw") as lines:
                for line in lines:
                    heard.append(line)
                    lines.write(answers.get(line.split()[0], ""))
                    lines.flush()
                    if line == "STATUS\n":
                        return

        threading.Thread(target=serve, daemon=True).start()
        yield {"NCCL_RAS_ADDR": f"127.0.0.1:{listener.getsockname()[1]}"}


def test_report_of_the_server_is_returned_without_control_characters() -> None:
    with server(CLIENT="SERVER PROTOCOL 2\n", TIMEOUT="OK\n", STATUS=REPORT) as environ:
        report = ask_ras(environ)
    assert report.startswith("NCCL version 2.28.3")
    assert report.endswith("[2JGroup 1  2 nodes")
    assert "\x1b" not in report


@pytest.mark.parametrize(
    "answers", [{}, {"CLIENT": "HTTP/1.1 400\n"}, {"CLIENT": "SERVER PROTOCOL 2\n", "TIMEOUT": "E\n"}]
)
def test_other_servers_and_silent_ones_cost_little(answers: dict[str, str]) -> None:
    began = time.monotonic()
    with server(**answers) as environ:
        assert ask_ras(environ) == ""
    assert time.monotonic() - began < 3


def test_without_a_server_nothing_is_reported() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        assert ask_ras({"NCCL_RAS_ADDR": address}) == ask_ras({"NCCL_RAS_ADDR": "nonsense"}) == ""
