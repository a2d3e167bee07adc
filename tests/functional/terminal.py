"""A terminal for tests: a program runs in it, and what it shows can be looked at."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from pathlib import Path
from typing import Dict, List, NamedTuple, Sequence

import pyte


class Shown(NamedTuple):
    """The exit code, all that was written, and the lines that a reader sees, with those above the screen."""

    code: int
    written: bytes
    lines: List[str]


def in_terminal(argv: Sequence[str], cwd: Path, environ: Dict[str, str], rows: int, columns: int) -> Shown:
    """Runs a program to its end in a terminal of this size."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # the last one that held the other end has gone
            break
        if not part:
            break
        written += part
    os.close(ours)
    return Shown(process.wait(), written, screen_lines(written, rows, columns))


def screen_lines(written: bytes, rows: int, columns: int) -> List[str]:
    """What a terminal of this size shows of these bytes, with what has gone off its upper end."""
    screen = pyte.HistoryScreen(columns, rows, history=100_000, ratio=1.0)
    pyte.ByteStream(screen).feed(written)
    above = ["".join(line[x].data for x in range(columns)).rstrip() for line in screen.history.top]
    return [*above, *(line.rstrip() for line in screen.display)]
