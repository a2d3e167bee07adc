"""A terminal for tests: runs a program and returns what the screen shows."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyte


class Shown(NamedTuple):
    """The exit code, all output, and the lines on the screen including those scrolled off its top."""

    code: int
    written: bytes
    lines: list[str]


def in_terminal(
    argv: Sequence[str],
    cwd: Path,
    environ: dict[str, str],
    *,
    rows: int,
    columns: int,
    typed: bytes | None = None,
) -> Shown:
    """Runs a program to its end in a terminal of this size, where it reads what was typed before."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL if typed is None else theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    os.write(ours, typed or b"")
    written = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # the last holder of the other end has exited
            break
        if not part:
            break
        written += part
    os.close(ours)
    return Shown(process.wait(), written, screen_lines(written, rows, columns))


def screen_lines(written: bytes, rows: int, columns: int) -> list[str]:
    """The lines on a terminal of this size after this output, including those scrolled off its top."""
    screen = pyte.HistoryScreen(columns, rows, history=100_000, ratio=1.0)
    pyte.ByteStream(screen).feed(written)
    above = ["".join(line[x].data for x in range(columns)).rstrip() for line in screen.history.top]
    return [*above, *(line.rstrip() for line in screen.display)]
