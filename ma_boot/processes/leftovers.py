"""Processes that outlive ma_boot: a guard kills them if ma_boot is killed, the next start stops the rest."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import Callable, Iterator, Mapping, Sequence

from ma_boot.processes import orphan_guard
from ma_boot.processes.signals import SignalInbox, signal_process

POLL_SECONDS = 0.02  # they are not our children: no SIGCHLD comes
MOST_NAMED = 5


@contextlib.contextmanager
def guarded(marker: str, environ: Mapping[str, str]) -> Iterator[int]:
    """Runs a guard process during the block, which kills all marked processes if this process is killed.

    Yields the guard's pid. The guard itself carries no marker: with that of a rehearsal around this node, it
    would be killed together with this node.

    Raises:
        OSError: the guard cannot be started.
    """
    read, write = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", orphan_guard.__file__, marker],
            cwd="/",
            env={name: value for name, value in environ.items() if name != orphan_guard.MARKER_VARIABLE},
            stdin=read,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    finally:
        os.close(read)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()
        os.close(write)


def stop_leftovers(
    container: str,
    stop_timeout: float,
    inbox: SignalInbox,
    say: Callable[[str], None],
    event: Callable[..., None],
) -> None:
    """Stops what an earlier start in this container left running: it holds devices and ports.

    SIGTERM first, then SIGKILL after `stop_timeout` seconds.

    Raises:
        Stopped: a stop signal arrived meanwhile.
    """
    found = orphan_guard.leftovers(container)
    if not found:
        return
    say(f"stopping {len(found)} processes that an earlier start left: {_listed(found)}")
    event("left-over", pids=found)
    deadline = time.monotonic() + stop_timeout
    for pid in found:
        signal_process(pid, signal.SIGTERM)
    while (found := orphan_guard.leftovers(container)) and time.monotonic() < deadline:
        inbox.check()
        inbox.wait(POLL_SECONDS)
    for pid in found:
        signal_process(pid, signal.SIGKILL)


def _listed(pids: Sequence[int]) -> str:
    shown = ", ".join(map(str, pids[:MOST_NAMED]))
    return shown + (", ..." if len(pids) > MOST_NAMED else "")
