"""Processes with the number of another one that has ended."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.requirement import unavailable

LAST_PID = Path("/proc/sys/kernel/ns_last_pid")  # the next process gets the number after it (proc(5))
ATTEMPTS = 200  # another process of the machine may come first


@contextmanager
def with_number(pid: int, argv: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process with this number, which leads a session of its own; skips the test where none can be made."""
    for _ in range(ATTEMPTS):
        try:
            LAST_PID.write_text(str(pid - 1))
        except OSError as error:
            unavailable(f"to choose the number of a process: {error}")
        process = subprocess.Popen(argv, start_new_session=True, stdin=subprocess.DEVNULL)
        if process.pid == pid:
            break
        process.kill()
        process.wait()
    else:
        unavailable(f"the number {pid}: {ATTEMPTS} other processes came first")
    try:
        yield process
    finally:
        process.kill()
        process.wait()
