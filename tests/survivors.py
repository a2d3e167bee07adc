"""Processes that outlive the test that started them."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import time
from collections.abc import Collection
from pathlib import Path

GRACE_SECONDS = 10.0  # what has lost its ma_boot is killed by a guard, which needs a moment
_lasting: set[int] = set()


def last(pids: Collection[int]) -> None:
    """These processes belong to a fixture that tests share: neither they nor their children survive a test."""
    _lasting.update(pids)


def descendants() -> set[int]:
    """The processes below this one, also ended ones that nobody has waited for, without lasting ones.

    Call `adopt_orphans` before: the kernel then makes this process the parent of whatever loses its own.
    """
    below: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        new = _children(waiting.pop()) - below - _lasting
        below |= new
        waiting += new
    return below


def end_survivors(before: Collection[int], grace: float = GRACE_SECONDS) -> dict[int, str]:
    """Kills the descendants that were not there `before`; returns the command lines of those it had to kill.

    They have `grace` seconds to end by themselves. Those that have ended are taken off the kernel's table.
    """
    until = time.monotonic() + grace
    killed: dict[int, str] = {}
    while True:
        running = {pid for pid in descendants().difference(before) if not _taken_if_ended(pid)}
        if not running:
            return killed
        if time.monotonic() > until:
            killed.update((pid, _command(pid)) for pid in running if pid not in killed)
            for pid in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def close_ended(before: Collection[int]) -> None:
    """Closes the pipes to processes that were not there `before` and have ended.

    A failed test holds them until another one has failed: the warnings about them would come in any later one.
    """
    for process in [thing for thing in gc.get_objects() if isinstance(thing, subprocess.Popen)]:
        if process.pid not in before and process.poll() is not None:
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with contextlib.suppress(OSError):  # what was not written has no reader
                        pipe.close()


def _children(pid: int) -> set[int]:
    """The children of all threads of a process, from the kernel's own list: a look at all of /proc is slow."""
    children: set[int] = set()
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            children.update(map(int, file.read_text().split()))
    return children


def _taken_if_ended(pid: int) -> bool:
    """Whether the process has ended; its parent has waited for it then, if that is this process."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    if state not in "ZX":
        return False
    with contextlib.suppress(ChildProcessError):  # it has another parent, who will take it, or leave it to us
        os.waitpid(pid, os.WNOHANG)
    return True


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return "?"
