"""Child processes: run, reap as an init process does, and stop those that outlive ma_boot."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Callable

from ma_boot.errors import Stopped, described
from ma_boot.processes import orphan_guard
from ma_boot.processes.orphan_guard import (
    MARKER_VARIABLE,
    SETUP,
    RunningProcesses,
    own_marker,
    running_processes,
)
from ma_boot.processes.signals import STOP_SIGNALS, SignalInbox, signal_group, signal_process
from ma_boot.processes.task import REMIND_SECONDS
from ma_boot.wording import WarningLine

# Imports the guard as a module, because its byte code is cached: a guard starts with every program.
_GUARD = """
import os, sys
sys.path.append(os.path.dirname(sys.argv[1]))
import orphan_guard
orphan_guard.guard(sys.argv[2])
"""
# Seconds between two looks at processes of an earlier start: they are no children, so no SIGCHLD comes.
POLL_SECONDS = 0.02
# Pids in a line of the log.
MOST_NAMED = 5
# Seconds; the grace period of the setup's daemons after a stop signal.
HURRIED_SECONDS = 1.0


@contextlib.contextmanager
def guarded(marker: str, environ: Mapping[str, str]) -> Iterator[int]:
    """Runs a guard process during the block, which kills all marked processes if this process is killed.

    Yields the guard's pid. The guard carries a marker of its own: with the marker of a rehearsal around this
    node, or without any, it would be killed together with this node.

    Raises:
        OSError: the guard cannot be started.
    """
    python_needs = {name: environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in environ}
    read, write = os.pipe()
    # The guard inherits the blocked signals: it must outlive this process.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", "-c", _GUARD, orphan_guard.__file__, marker],
            cwd="/",
            env={**python_needs, MARKER_VARIABLE: orphan_guard.GUARD},
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
    """Stops processes that an earlier start in this container left: they hold devices and ports.

    Sends SIGTERM, then SIGKILL after `stop_timeout` seconds.

    Raises:
        Stopped: a stop signal arrived; the processes have been killed.
    """
    pids = orphan_guard.leftovers(container)
    if not pids:
        return
    say(f"stopping {len(pids)} processes that an earlier start left: {_listed(pids)}")
    event("left-over", pids=pids)
    _stop(lambda: orphan_guard.leftovers(container), stop_timeout, inbox, inbox.check)


def stop_setup(
    stop_timeout: float, inbox: SignalInbox, say: Callable[[str], None], event: Callable[..., None]
) -> None:
    """Stops daemons of the setup: processes of `run_child` in sessions of their own.

    Sends SIGTERM, then SIGKILL after `stop_timeout` seconds; after 1 s if a stop signal has arrived before,
    and at once if one arrives meanwhile. Never raises. Call it from the main thread, which adopts such
    processes.
    """
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        # No child is left, which is usual: saves a scan of all processes.
        return
    marker, stops = own_marker(SETUP), len(inbox.stops)

    def check() -> None:
        if len(inbox.stops) > stops:
            raise Stopped(inbox.stops[-1])

    try:
        if pids := orphan_guard.processes_marked(marker):
            say(f"stopping what the setup left running: {_listed(pids)}")
            event("left-over", pids=pids)
            seconds = HURRIED_SECONDS if stops else stop_timeout
            _stop(lambda: orphan_guard.processes_of(marker), seconds, inbox, check)
    except Stopped:
        return
    except OSError as error:
        say(WarningLine(f"what the setup left running was not stopped: {described(error)}"))


def _stop(
    left: Callable[[], Sequence[int]], seconds: float, inbox: SignalInbox, check: Callable[[], None]
) -> None:
    """Sends SIGTERM, then SIGKILL to processes left after so many seconds, or when `check` raises."""
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


# linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36
# linux/wait.h: excludes the children that other threads have started.
_WNOTHREAD = 0x20000000


def run_child(
    argv: Sequence[str],
    environ: Mapping[str, str],
    inbox: SignalInbox,
    remind: Callable[[], None],
    *,
    cwd: str | None = None,
    stdout: int | None = None,
    pass_fds: Sequence[int] = (),
) -> int:
    """Runs a program and returns its exit code (-n for signal n) after the end of its process group.

    The rest of the group is killed; all descendants are killed if this process is killed meanwhile. Processes
    in other sessions continue until `stop_setup`. `remind` is called every 20 s.

    Raises:
        OSError: the program cannot be started.
        Stopped: a stop signal arrived; the program has been killed.
    """
    marker = own_marker(SETUP)
    with guarded(marker, environ):
        process = subprocess.Popen(
            argv, env={**environ, MARKER_VARIABLE: marker}, cwd=cwd, stdin=subprocess.DEVNULL, stdout=stdout,
            pass_fds=pass_fds, start_new_session=True,
        )  # fmt: skip
        reminded = time.monotonic()
        try:
            while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                inbox.check()
                if time.monotonic() - reminded >= REMIND_SECONDS:
                    reminded = time.monotonic()
                    remind()
                inbox.wait(reminded + REMIND_SECONDS - time.monotonic())
        finally:
            # The leader is not reaped yet, so its number cannot belong to another group.
            signal_group(process.pid, signal.SIGKILL)
            process.wait()
    return process.returncode


def adopt_orphans() -> None:
    """Makes this process the parent of all orphans among its descendants (prctl(2)).

    Raises:
        OSError: the kernel refuses.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def adopted_children(at: RunningProcesses | None = None) -> list[int]:
    """Returns the running children of this thread: those that it started, and adopted orphans.

    Call it from the main thread, which adopts the orphans. Children of other threads are not included.
    """
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT | _WNOTHREAD)
    except ChildProcessError:
        # No children: saves a scan of all processes.
        return []
    pids = []
    for pid, (parent, _) in (running_processes() if at is None else at).items():
        if parent != os.getpid():
            continue
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT | _WNOTHREAD)
        except ChildProcessError:  # another thread's
            continue
        pids.append(pid)
    return pids


def reap_orphans(own: Collection[int]) -> list[tuple[int, int]]:
    """Reaps adopted processes that have ended, and returns their pids and exit codes (128+n for signal n).

    The pids in `own` are left to their `Popen` objects. Call it from the main thread after polling `own`: the
    kernel reports one ended child at a time.
    """
    reaped: list[tuple[int, int]] = []
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT | _WNOTHREAD)
        except ChildProcessError:
            return reaped
        if ended is None or ended.si_pid in own:
            return reaped
        os.waitid(os.P_PID, ended.si_pid, os.WEXITED | os.WNOHANG)
        by_signal = ended.si_code != os.CLD_EXITED
        reaped.append((ended.si_pid, ended.si_status + (128 if by_signal else 0)))


def forbid_core_files() -> None:
    """Sets `ulimit -c 0`, as ModelArts' guides ask: core files of crashed ranks fill the container's disk.

    The hard limit stays, so that a script that wants core files can raise it again.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
