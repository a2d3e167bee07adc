"""Child processes: run to their end in sessions of their own, and reaped as an init process would."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Callable, Collection, List, Mapping, Optional, Sequence, Tuple

from ma_boot.processes.leftovers import guarded
from ma_boot.processes.orphan_guard import (
    MARKER_VARIABLE,
    SETUP,
    own_marker,
    running_processes,
)
from ma_boot.processes.signals import SignalInbox, signal_group
from ma_boot.processes.task import REMIND_SECONDS

if TYPE_CHECKING:
    from ma_boot.processes.orphan_guard import RunningProcesses

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_WNOTHREAD = 0x20000000  # linux/wait.h: only children of this thread, not those that other threads started


def run_child(
    argv: Sequence[str],
    environ: Mapping[str, str],
    inbox: SignalInbox,
    remind: Callable[[], None],
    *,
    cwd: Optional[str] = None,
    stdout: Optional[int] = None,
    pass_fds: Sequence[int] = (),
) -> int:
    """Runs a program and returns its exit code (-n for signal n), once its process group is gone too.

    What is left of the group is killed, and all that it started if this process is killed meanwhile. What has
    moved to another session goes on until `stop_setup`.
    `remind` is called every 20 s.

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
            while not _has_ended(process.pid):
                inbox.check()
                if time.monotonic() - reminded >= REMIND_SECONDS:
                    reminded = time.monotonic()
                    remind()
                inbox.wait(reminded + REMIND_SECONDS - time.monotonic())
        finally:
            signal_group(process.pid, signal.SIGKILL)  # its leader is not reaped yet
            process.wait()
    return process.returncode


def _has_ended(child: int) -> bool:
    """Whether a child has ended, which is not reaped by that."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def adopt_orphans() -> None:
    """Makes this process the parent of all orphans among its descendants, as PID 1 is anyway.

    Raises:
        OSError: the kernel refuses.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def adopted_children(at: Optional[RunningProcesses] = None) -> List[int]:
    """The running children of this thread: what it started, and the orphans that the main thread adopts.

    Call it from the main thread: what other threads have started is left out.
    """
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT | _WNOTHREAD)
    except ChildProcessError:  # it has none: no need to look through all processes
        return []
    found = []
    for pid, (parent, _) in (running_processes() if at is None else at).items():
        if parent != os.getpid():
            continue
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT | _WNOTHREAD)
        except ChildProcessError:  # another thread's
            continue
        found.append(pid)
    return found


def reap_orphans(own: Collection[int]) -> List[Tuple[int, int]]:
    """Reaps adopted processes that have ended, and returns their pids and exit codes (128+n for signal n).

    The pids in `own` are left to whoever started them. Call it from the main thread after polling `own`: the
    kernel shows one ended child at a time.
    """
    reaped: List[Tuple[int, int]] = []
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
