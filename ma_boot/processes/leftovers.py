"""Processes that outlive ma_boot: a guard kills them if ma_boot is killed, the next start stops the rest."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import Callable, Iterator, Mapping, Sequence

from ma_boot.errors import Stopped, described
from ma_boot.processes import orphan_guard
from ma_boot.processes.signals import STOP_SIGNALS, SignalInbox, signal_process

# As a module, whose byte code is there already.
_GUARD = """
import os, sys
sys.path.append(os.path.dirname(sys.argv[1]))
import orphan_guard
orphan_guard.guard(sys.argv[2])
"""
POLL_SECONDS = 0.02  # they are not our children: no SIGCHLD comes
MOST_NAMED = 5
HURRIED_SECONDS = 1.0


@contextlib.contextmanager
def guarded(marker: str, environ: Mapping[str, str]) -> Iterator[int]:
    """Runs a guard process during the block, which kills all marked processes if this process is killed.

    Yields the guard's pid. The guard itself carries the marker of guards: with that of a rehearsal around
    this node, or without any, it would be killed together with this node.

    Raises:
        OSError: the guard cannot be started.
    """
    python_needs = {name: environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in environ}
    read, write = os.pipe()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # the guard inherits it
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", "-c", _GUARD, orphan_guard.__file__, marker],
            cwd="/",
            env={**python_needs, orphan_guard.MARKER_VARIABLE: orphan_guard.GUARD},
            stdin=read,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except BaseException:
        os.close(write)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
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
        Stopped: a stop signal arrived meanwhile; what was left has been killed.
    """
    found = orphan_guard.leftovers(container)
    if not found:
        return
    say(f"stopping {len(found)} processes that an earlier start left: {_listed(found)}")
    event("left-over", pids=found)
    _stop(lambda: orphan_guard.leftovers(container), stop_timeout, inbox, inbox.check)


def stop_setup(
    stop_timeout: float, inbox: SignalInbox, say: Callable[[str], None], event: Callable[..., None]
) -> None:
    """Stops what programs that ran before the training (`run_child`) left running in sessions of their own.

    SIGTERM first, then SIGKILL after `stop_timeout` seconds; after 1 s, or at once, if a stop signal has
    arrived, or arrives. Raises nothing. Call it from the main thread, which adopts such processes.
    """
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # mostly: no look at all processes is needed
        return
    marker, heard = orphan_guard.own_marker(orphan_guard.SETUP), len(inbox.stops)

    def check() -> None:
        if len(inbox.stops) > heard:
            raise Stopped(inbox.stops[-1])

    try:
        if found := orphan_guard.processes_marked(marker):
            say(f"stopping what the setup left running: {_listed(found)}")
            event("left-over", pids=found)
            seconds = HURRIED_SECONDS if heard else stop_timeout
            _stop(lambda: orphan_guard.processes_of(marker), seconds, inbox, check)
    except Stopped:
        return
    except OSError as error:
        say(f"what the setup left running was not stopped: {described(error)}")


def _stop(
    left: Callable[[], Sequence[int]], seconds: float, inbox: SignalInbox, check: Callable[[], None]
) -> None:
    """SIGTERM, then SIGKILL to what is left after so many seconds, or when `check` raises."""
    deadline = time.monotonic() + seconds
    for pid in left():
        signal_process(pid, signal.SIGTERM)
    try:
        while left() and time.monotonic() < deadline:
            check()
            inbox.wait(POLL_SECONDS)
    finally:
        for pid in left():
            signal_process(pid, signal.SIGKILL)


def _listed(pids: Sequence[int]) -> str:
    shown = ", ".join(map(str, pids[:MOST_NAMED]))
    return shown + (", ..." if len(pids) > MOST_NAMED else "")
