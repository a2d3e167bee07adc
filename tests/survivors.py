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

# Seconds for survivors to end by themselves: a guard kills processes whose ma_boot has died, with some delay.
GRACE_SECONDS = 10.0
_excluded: set[int] = set()


def exclude(pids: Collection[int]) -> None:
    """Excludes the processes of a shared fixture and their children from the survivors."""
    _excluded.update(pids)


def descendants() -> set[int]:
    """Returns the processes below this one, zombies included, without excluded ones.

    Call `adopt_orphans` before: the kernel then makes this process the parent of orphans.
    """
    below: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        new = _children(waiting.pop()) - below - _excluded
        below |= new
        waiting += new
    return below


def end_survivors(before: Collection[int], grace: float = GRACE_SECONDS) -> dict[int, str]:
    """Kills the descendants that were not there `before`; returns the command lines of those it had to kill.

    They have `grace` seconds to end by themselves. Zombies are reaped.
    """
    until = time.monotonic() + grace
    killed: dict[int, str] = {}
    while True:
        running = {pid for pid in descendants().difference(before) if not _reap_if_ended(pid)}
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

    A failed test holds them until another one has failed, so their warnings would appear in a later test.
    """
    for process in [each for each in gc.get_objects() if isinstance(each, subprocess.Popen)]:
        if process.pid not in before and process.poll() is not None:
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with contextlib.suppress(OSError):  # unwritten data has no reader any more
                        pipe.close()


def _children(pid: int) -> set[int]:
    """Returns the children of all threads of a process, by the kernel's list: a scan of /proc is slow."""
    children: set[int] = set()
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            children.update(map(int, file.read_text().split()))
    return children


def _reap_if_ended(pid: int) -> bool:
    """Returns True if the process has ended; reaps it if this process is its parent."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    if state not in "ZX":
        return False
    with contextlib.suppress(ChildProcessError):  # another parent will reap it, or leave it to us
        os.waitpid(pid, os.WNOHANG)
    return True


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return "?"
