"""Finds and ends what a run of ma_boot leaves behind; run as a program, it outlives ma_boot to do so.

Every process that ma_boot starts carries a marker in its environment, and hands it down to all that it
starts itself, whatever session they go to. ma_boot keeps the write end of a pipe to the guard: the kernel
closes it when ma_boot dies, of SIGKILL too, and the guard ends everything that carries the marker.

It runs as `python -I -S guard.py MARKER`, so it imports only what costs nothing.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Iterator, List, Optional, Tuple

VARIABLE = "MABOOT_RUN"
_ROUNDS = 200  # of 10 ms: a process in an uninterruptible sleep is not waited for any longer


def own_marker(container: str) -> str:
    """The marker of this process: its PID namespace, its pid, when it started, and its container's name."""
    return f"{_namespace()}:{os.getpid()}:{_started(os.getpid())}:{container}"


def marked(marker: str) -> List[int]:
    """The processes that carry the marker and live."""
    return [pid for pid, found in carriers(VARIABLE) if found == marker]


def left_over(container: str) -> List[int]:
    """Processes of this user in this container whose ma_boot is gone: an earlier start left them.

    A machine may play several containers at a time: those of another name are not ours.
    """
    alone = []
    for pid, found in carriers(VARIABLE):
        namespace, owner, started, name = (*found.split(":", 3), "", "", "")[:4]
        here = namespace == _namespace() and name == container
        if here and owner.isdecimal() and _started(int(owner)) != started:
            alone.append(pid)
    return alone


def carriers(name: str) -> Iterator[Tuple[int, str]]:
    """All other processes that this user may look at and that have this variable, each with its value.

    It is what they were started with; of an ended one the kernel shows none.
    """
    start = name.encode() + b"="
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
        if pid == os.getpid():
            continue
        try:
            with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
                environ = file.read()
        except OSError:  # gone, or another user's
            continue
        if start in environ:
            found = (variable for variable in environ.split(b"\0") if variable.startswith(start))
            yield from ((pid, os.fsdecode(variable[len(start) :])) for variable in found)


def _started(pid: int) -> Optional[str]:
    """When the process started, in ticks after the machine's start; None when it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def _namespace() -> str:
    return os.readlink("/proc/self/ns/pid").strip("pid:[]")


def _guard(marker: str) -> None:
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(signum, signal.SIG_IGN)
    while os.read(0, 1):  # nothing is ever written: this ends when ma_boot does
        pass
    for _ in range(_ROUNDS):  # again and again: a process may start another one meanwhile
        found = marked(marker)
        if not found:
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        time.sleep(0.01)


if __name__ == "__main__":
    _guard(sys.argv[1])
