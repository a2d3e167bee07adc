"""Finds processes by the marker that they carry; run as a program, kills them once ma_boot is gone.

Every process that ma_boot starts has a marker in its environment, which its own children inherit, whatever
session they move to. ma_boot holds the write end of a pipe to the guard. When ma_boot dies, even of SIGKILL,
the kernel closes the pipe, and the guard kills every process that carries the marker.

It runs as `python -I -S orphan_guard.py MARKER`, so it imports only cheap modules of the
standard library.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Iterator, List, Optional, Tuple

MARKER_VARIABLE = "MABOOT_RUN"
_POLL_SECONDS = 0.01
_POLLS = 200  # a process in uninterruptible sleep is not waited for any longer


def own_marker(container: str) -> str:
    """The marker for what this process starts: PID namespace, pid, start time and name of the container."""
    return f"{_namespace()}:{os.getpid()}:{_started(os.getpid())}:{container}"


def processes_marked(marker: str) -> List[int]:
    """The running processes that carry the marker."""
    return [pid for pid, found in processes_with(MARKER_VARIABLE) if found == marker]


def leftovers(container: str) -> List[int]:
    """This user's marked processes in this container whose ma_boot is gone.

    Several containers may share a PID namespace, in a rehearsal for example: their names tell them apart.
    """
    orphaned = []
    for pid, found in processes_with(MARKER_VARIABLE):
        namespace, owner, started, name = (*found.split(":", 3), "", "", "")[:4]
        here = namespace == _namespace() and name == container
        if here and owner.isdecimal() and _started(int(owner)) != started:
            orphaned.append(pid)
    return orphaned


def processes_with(variable: str) -> Iterator[Tuple[int, str]]:
    """The other processes that were started with this environment variable, each with its value.

    Those of other users are left out, as far as the kernel hides their environment, and so are zombies.
    """
    start = variable.encode() + b"="
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
        if pid == os.getpid():
            continue
        try:
            with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
                environ = file.read()
        except OSError:  # gone, or another user's
            continue
        if start in environ:
            found = (entry for entry in environ.split(b"\0") if entry.startswith(start))
            yield from ((pid, os.fsdecode(entry[len(start) :])) for entry in found)


def process_stat(pid: int) -> Optional[List[str]]:
    """The fields of /proc/PID/stat (proc(5)) after the name, from the state on; None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def _started(pid: int) -> Optional[str]:
    """The start time of the process in clock ticks after boot; None if it has ended."""
    stat = process_stat(pid)
    return None if stat is None or stat[0] in "ZX" else stat[19]


def _namespace() -> str:
    return os.readlink("/proc/self/ns/pid").strip("pid:[]")


def _guard(marker: str) -> None:
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(signum, signal.SIG_IGN)
    while os.read(0, 1):  # nothing is ever written: this returns when ma_boot has gone
        pass
    for _ in range(_POLLS):  # repeated: a process may start another one meanwhile
        found = processes_marked(marker)
        if not found:
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    _guard(sys.argv[1])
