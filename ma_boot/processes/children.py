"""Child processes and process groups: started in sessions of their own, signalled, and never left behind."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from typing import Callable, Iterator, Mapping, Optional, Sequence

from ma_boot.processes import orphan_guard
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.task import REMIND_SECONDS


def signal_group(pgid: int, signum: int) -> bool:
    """Sends the signal to a whole group; False when no process of it is left."""
    try:
        os.killpg(pgid, signum)
    except ProcessLookupError:
        return False
    except PermissionError:  # what is left of it runs as another user
        return True
    return True


def group_lives(pgid: int) -> bool:
    """True while the group has a member, ended ones that nobody has taken included."""
    return signal_group(pgid, 0)


def end_group(pgid: int) -> None:
    """Ends what is left of a group at once."""
    signal_group(pgid, signal.SIGKILL)


def signal_process(pid: int, signum: int) -> None:
    """Sends the signal to one process, if it is there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signum)


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
    """Runs a program to its end and returns its code; what it leaves in its group is ended too.

    `remind` is called every 20 s. Raises `Stopped` at a stop signal, after the program is ended.
    """
    process = subprocess.Popen(
        argv, env=dict(environ), cwd=cwd, stdin=subprocess.DEVNULL, stdout=stdout, pass_fds=pass_fds,
        start_new_session=True,
    )  # fmt: skip
    said_at = time.monotonic()
    try:
        while process.poll() is None:
            inbox.check()
            if time.monotonic() - said_at >= REMIND_SECONDS:
                said_at = time.monotonic()
                remind()
            inbox.wait(said_at + REMIND_SECONDS - time.monotonic())
    finally:
        end_group(process.pid)
        process.wait()
    return process.returncode


@contextlib.contextmanager
def guarded(marker: str, environ: Mapping[str, str]) -> Iterator[int]:
    """While the block runs, a guard process stands by that ends all marked processes when we are killed.

    The value is its pid. It does not carry a marker itself: one of a rehearsal around this node would have
    it killed at the same moment as this node.
    """
    read, write = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", orphan_guard.__file__, marker],
            cwd="/",
            env={name: value for name, value in environ.items() if name != orphan_guard.VARIABLE},
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


def forbid_core_files() -> None:
    """Core files of a crashed rank fill the container's disk (ModelArts' guide asks for `ulimit -c 0`).

    The hard limit stays: who wants core files can raise it again.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
