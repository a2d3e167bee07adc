"""Signals: an inbox on which the main loop waits, and sending to processes and groups."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from ma_boot.errors import Stopped

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
# Users request the stacks of a training by sending these to every Python process (`pkill -USR1 python`).
_DISREGARDED = frozenset((signal.SIGUSR1, signal.SIGUSR2))
# Signals that do not end a process by default or in Python, that cannot be caught, or that mean that the
# process itself is broken (signal(7)).
_NOT_DEADLY = frozenset(
    (
        signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH, signal.SIGPIPE, signal.SIGXFSZ,
        signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGKILL,
        signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP,
        signal.SIGSYS,
    )
)  # fmt: skip


class SignalInbox:
    """Stop signals of this process, received within the `with` block; for the main thread.

    Any other signal that would end the process counts as one, but only once: a timer may repeat it. SIGUSR1
    and SIGUSR2 are ignored. Signals that the parent process has blocked are unblocked, also in child
    processes.

    SIGCHLD is caught only to wake the main loop. The supervisor polls each of its own children: a
    `waitpid(-1)` beside `Popen` would steal their exit codes.
    """

    def __init__(self) -> None:
        self.stops: list[int] = []
        self._previous: dict[int, Any] = {}
        self._previous_wakeup = -1
        # Other threads write to the pipe: after its end, its descriptor may be another file's.
        self._closing = threading.Lock()

    def __enter__(self) -> SignalInbox:
        read, write = os.pipe()
        os.set_blocking(read, False)
        os.set_blocking(write, False)
        self._reader, self._writer = open(read, "rb", buffering=0), open(write, "wb", buffering=0)
        self._previous_wakeup = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for signum in (*STOP_SIGNALS, signal.SIGCHLD):
            if signum == signal.SIGHUP and signal.getsignal(signum) == signal.SIG_IGN:
                continue  # started by nohup
            self._previous[signum] = signal.signal(signum, self._record)
        for signum in signal.valid_signals() - _NOT_DEADLY - set(STOP_SIGNALS):
            if signal.getsignal(signum) == signal.SIG_DFL:
                self._previous[signum] = signal.signal(signum, self._record)
        # Pending signals arrive now.
        self._blocked = signal.pthread_sigmask(signal.SIG_SETMASK, ())
        return self

    def __exit__(self, *exc: object) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._previous_wakeup)
        with self._closing:
            self._writer.close()
        self._reader.close()

    def _record(self, signum: int, frame: FrameType | None) -> None:
        if signum in STOP_SIGNALS or signum not in (signal.SIGCHLD, *_DISREGARDED, *self.stops):
            self.stops.append(signum)

    def fileno(self) -> int:
        """Returns a descriptor that is readable after a signal or a wake-up since the last `drain`."""
        return self._reader.fileno()

    def drain(self) -> None:
        """Consumes pending wake-ups, so that the next wait sleeps."""
        # None once it would block.
        while self._reader.read(4096):
            pass

    def wake(self) -> None:
        """Wakes the waiting loop; may be called from any thread, also from one that outlives the inbox."""
        with self._closing:
            if not self._writer.closed:
                self._writer.write(b"\0")

    def wait(self, seconds: float) -> None:
        """Sleeps until a signal or a wake-up arrives, for at most `seconds`."""
        # select(2) fails with descriptors above 1023.
        poll = select.poll()
        poll.register(self, select.POLLIN)
        poll.poll(max(0.0, seconds) * 1000)
        self.drain()

    def check(self) -> None:
        """Raises `Stopped` once a stop signal has arrived."""
        if self.stops:
            raise Stopped(self.stops[0])


def signal_group(pgid: int, signum: int) -> bool:
    """Sends the signal to a process group, 0 for none; returns False if the group has no members.

    Zombies are members until they are reaped.
    """
    try:
        os.killpg(pgid, signum)
    except ProcessLookupError:
        return False
    except PermissionError:  # the remaining members run as another user
        return True
    return True


def signal_process(pid: int, signum: int) -> None:
    """Sends the signal to a process, if it exists and belongs to this user."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signum)


def catches_signal(pid: int, signum: int) -> bool:
    """Returns True if the process has a handler for the signal; False if it has ended."""
    with (
        contextlib.suppress(OSError),
        open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file,
    ):
        caught = next((line.split()[1] for line in file if line.startswith("SigCgt:")), "0")
        return bool(int(caught, 16) >> (signum - 1) & 1)
    return False


_SHELLS = {"sh", "bash", "dash", "ash", "busybox", "ksh", "mksh", "zsh"}


def swallowing_shell() -> str | None:
    """Returns the command of the parent shell if SIGTERM would not get past it; else None.

    The platform stops a container by SIGTERM to its first process. A shell that runs a command or a script
    without `exec` does not pass signals on. As PID 1 it does not even end, unless it has a handler.
    """
    parent = os.getppid()
    try:
        command_line = Path(f"/proc/{parent}/cmdline").read_bytes().decode(errors="replace")
    except OSError:  # it has ended, or /proc is not readable
        return None
    words = command_line.rstrip("\0").split("\0")
    name = os.path.basename(words[0]).lstrip("-")
    if name not in _SHELLS or catches_signal(parent, signal.SIGTERM):
        return None
    if all(word.startswith("-") for word in words[1:]):  # it is interactive
        return None
    return " ".join(words)
