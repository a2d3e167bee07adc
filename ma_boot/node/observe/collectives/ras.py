"""Asks NCCL's RAS for the state of its communicators (NCCL >= 2.24).

A process of each node listens on localhost:28028, or at NCCL_RAS_ADDR. The protocol is one of lines, as in
NCCL's `src/ras/client.cc`; the answer to STATUS ends with the connection. Text is asked for: JSON is new in
NCCL 2.28, and people read it.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import BinaryIO

HOST, PORT = "localhost", 28028
# Version of the protocol since NCCL 2.24; the server ignores it.
HELLO = b"CLIENT PROTOCOL 2\n"
# Seconds; max. wait for the server's greeting.
GREETING_SECONDS = 1.0
# Seconds in which the server collects the answers of other processes, and max. wait for its report.
COLLECTING_SECONDS = 1
REPORT_SECONDS = 2.0
MOST_BYTES = 64 << 10
LONGEST_LINE = 256  # bytes; of an answer to a command


def ask_ras(environ: Mapping[str, str]) -> str:
    """Returns the report of NCCL's RAS; empty if nothing listens or answers in time."""
    until = time.monotonic() + GREETING_SECONDS + REPORT_SECONDS
    with (
        suppress(OSError, ValueError),
        socket.create_connection(_address(environ), GREETING_SECONDS) as server,
        server.makefile("rb") as answers,
    ):
        if not _command(server, answers, HELLO).upper().startswith(b"SERVER PROTOCOL"):
            return ""
        server.settimeout(REPORT_SECONDS)
        if _command(server, answers, b"TIMEOUT %d\n" % COLLECTING_SECONDS).strip().upper() != b"OK":
            return ""
        server.sendall(b"STATUS\n")
        return _printable(_read_to_end(answers, until))
    return ""


def _address(environ: Mapping[str, str]) -> tuple[str, int]:
    host, _, port = environ.get("NCCL_RAS_ADDR", f"{HOST}:{PORT}").rpartition(":")
    return host.strip("[]") or HOST, int(port)


def _command(server: socket.socket, answers: BinaryIO, line: bytes) -> bytes:
    server.sendall(line)
    return answers.readline(LONGEST_LINE)


def _read_to_end(answers: BinaryIO, until: float) -> bytes:
    """Reads until the server closes the connection; returns what has arrived if it does not."""
    parts: list[bytes] = []
    with suppress(OSError):
        while sum(map(len, parts)) < MOST_BYTES and time.monotonic() < until:
            part = answers.readline(MOST_BYTES)
            if not part:
                break
            parts.append(part)
    return b"".join(parts)[:MOST_BYTES]


def _printable(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").splitlines()
    return "\n".join("".join(letter for letter in line if letter.isprintable()) for line in lines).strip()
