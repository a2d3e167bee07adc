"""Looks at the processes of a job in /proc."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress

from ma_boot.node.scripts.leftovers import LeftProcess
from ma_boot.node.scripts.script_rank import NAMES, Process, RankNumber, read_number
from ma_boot.processes.cpu_meter import usage_of
from ma_boot.processes.orphan_guard import (
    MARKER_VARIABLE,
    children_of,
    process_stat,
    process_stats,
    variables_of,
)

# Bytes of a command that are read.
MOST_WORDS = 4096
# Looks at which a process without a rank is read again: a shell that becomes the rank (`exec`) keeps its pid.
LOOKS_FOR_EXEC = 3


class JobProcesses:
    """Processes that carry `marker`, below a command with the environment `given`.

    Environments are read once per process and a few times for those without a rank, so a look costs one read
    per process of the machine in general.
    """

    def __init__(self, marker: str, given: Mapping[str, str]) -> None:
        self._marker = marker
        self._given = given
        self._known: dict[tuple[int, str], tuple[bool, bool, RankNumber | None]] = {}
        self._looks: dict[tuple[int, str], int] = {}
        # Older processes cannot carry the marker, so their environments are not read.
        self._born = int(marker.split(":", 3)[2])

    def look(self) -> list[Process]:
        """Returns the running processes of the job, with the command itself."""
        processes, known, looks = [], {}, {}
        for pid, fields in process_stats().items():
            state, parent, started = fields[0], int(fields[1]), fields[19]
            if state in "ZX" or int(started) < self._born or pid == os.getpid():
                continue
            key = (pid, started)
            seen, count = self._known.get(key), self._looks.get(key, 0)
            if seen is None or (seen[2] is None and seen[0] and count < LOOKS_FOR_EXEC):
                seen = self._read(pid)
            known[key], looks[key] = seen, count + 1
            if seen[0]:
                processes.append(Process(pid, started, parent, seen[1], seen[2], int(fields[2])))
        self._known, self._looks = known, looks
        return processes

    def _read(self, pid: int) -> tuple[bool, bool, RankNumber | None]:
        """Returns whether a process is of this job, whether it is Python, and its rank."""
        environ = variables_of(pid, {MARKER_VARIABLE, *NAMES})
        if environ.get(MARKER_VARIABLE) != self._marker:
            return False, False, None
        return True, is_python(pid), read_number(environ, self._given)


def descendants_of(pid: int, given: Mapping[str, str]) -> list[Process]:
    """Returns the running descendants of a process that was started with the environment `given`."""
    stats = process_stats()
    children = children_of((child, int(fields[1])) for child, fields in stats.items())
    found: list[Process] = []
    waiting = list(children.get(pid, ()))
    while waiting:
        child = waiting.pop()
        fields, environ = stats[child], variables_of(child, NAMES)
        number = read_number(environ, given)
        found.append(Process(child, fields[19], int(fields[1]), is_python(child), number, int(fields[2])))
        waiting += children.get(child, ())
    return found


def is_python(pid: int) -> bool:
    """Returns whether a process runs a Python interpreter."""
    program = ""
    with suppress(OSError):  # it has just ended
        program = os.readlink(f"/proc/{pid}/exe")
    return os.path.basename(program).startswith(("python", "pypy"))


def log_file_of(pid: int) -> str | None:
    """Returns the regular file that is a process's standard output or error; None for a pipe or terminal."""
    for descriptor in (1, 2):
        with suppress(OSError):  # closed, or the process has just ended
            path = f"/proc/{pid}/fd/{descriptor}"
            if stat.S_ISREG(os.stat(path).st_mode):
                return os.readlink(path).removesuffix(" (deleted)")
    return None


def command_of(pid: int) -> tuple[str, ...]:
    """Returns the words of a process's command; empty if it has ended."""
    words = b""
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        words = file.read(MOST_WORDS)
    return tuple(os.fsdecode(words).rstrip("\0").split("\0")) if words else ()


def read_left(process: Process, output: int, printed: float) -> LeftProcess:
    """Reads a process that a command has left.

    `output` is the descriptor of the command's output, and `printed` the time of the last output.
    """
    log, written = log_file_of(process.pid), 0.0
    if log is not None:
        with suppress(OSError):
            written = float(os.stat(log).st_size)
    elif _has_output(process.pid, output):
        log, written = "", printed
    stat_fields = process_stat(process.pid)
    cpu = usage_of(stat_fields).cpu if stat_fields else 0.0
    return LeftProcess(process, command_of(process.pid), log, cpu, written)


def _has_output(pid: int, output: int) -> bool:
    """Returns whether a process holds the write end of the pipe of which `output` is the read end."""
    pipe = os.fstat(output)
    for descriptor in (1, 2):
        with suppress(OSError):  # closed, or the process has just ended
            held = os.stat(f"/proc/{pid}/fd/{descriptor}")
            if (held.st_dev, held.st_ino) == (pipe.st_dev, pipe.st_ino):
                return True
    return False
