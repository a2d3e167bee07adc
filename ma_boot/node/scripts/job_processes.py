"""Looks at the processes of a job in /proc."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Mapping
from contextlib import suppress

from ma_boot.node.scripts.leftovers import LeftProcess
from ma_boot.node.scripts.script_rank import NAMES, Process, read_number
from ma_boot.processes.cpu_meter import usage_of
from ma_boot.processes.orphan_guard import (
    MARKER_VARIABLE,
    descendants,
    process_stat,
    running_processes,
    variables_of,
)

# Bytes of a command that are read.
MOST_WORDS = 4096
# Seconds in which a process of the job may become the rank: a shell that executes it (`exec`) keeps its pid.
EXEC_SECONDS = 30.0
# Seconds after which all pids are read again: a pid may have been given to another process meanwhile.
REREAD_SECONDS = 60.0


class JobProcesses:
    """Processes that carry `marker`, below a command with the environment `given`.

    A look is made every few seconds for the whole run, so processes are read again only where they may have
    changed.
    """

    def __init__(self, marker: str, given: Mapping[str, str]) -> None:
        self._marker = marker
        self._given = given
        # By pid; None for a process that is not of the job.
        self._known: dict[int, Process | None] = {}
        # When a process of the job was read for the first time, by pid.
        self._seen: dict[int, float] = {}
        self._reread = 0.0
        # Older processes cannot carry the marker, so their environments are not read.
        self._born = int(marker.split(":", 3)[2])

    def look(self, at: Collection[int] | None = None) -> list[Process]:
        """Returns the running processes of the job, with the command itself; each with its first parent.

        The pids in `at`, by default all, are read even if they are known: a process that has ended without
        being reaped keeps its pid.
        """
        now = time.monotonic()
        if now >= self._reread:
            self._known, self._reread = {}, now + REREAD_SECONDS
        known: dict[int, Process | None] = {os.getpid(): None}
        for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
            before = self._known.get(pid)
            may_change = before is not None and (at is None or pid in at or self._may_execute(before, now))
            known[pid] = self._read(pid, before) if pid not in self._known or may_change else before
        self._known = known
        self._seen = {pid: self._seen.get(pid, now) for pid, process in known.items() if process is not None}
        return [process for process in known.values() if process is not None]

    def _may_execute(self, process: Process, now: float) -> bool:
        """Returns whether a process may become another program."""
        is_rank = process.is_python and process.number is not None
        return not is_rank and now < self._seen[process.pid] + EXEC_SECONDS

    def _read(self, pid: int, before: Process | None) -> Process | None:
        """Reads a process; None if it has ended or is not of the job."""
        fields = process_stat(pid)
        if fields is None or fields[0] in "ZX" or int(fields[19]) < self._born or pid == os.getpid():
            return None
        started, group = fields[19], int(fields[2])
        is_same = before is not None and before.started == started
        if before is not None and is_same and before.is_python and before.number is not None:
            return before._replace(group=group)
        environ = variables_of(pid, {MARKER_VARIABLE, *NAMES})
        if environ.get(MARKER_VARIABLE) != self._marker:
            return None
        parent = before.parent if before is not None and is_same else int(fields[1])
        number = read_number(environ, self._given)
        return Process(pid, started, parent, is_python=is_python(pid), number=number, group=group)


def descendants_of(pid: int, given: Mapping[str, str]) -> list[Process]:
    """Returns the running descendants of a process that was started with the environment `given`."""
    running = running_processes()
    return [
        Process(
            child,
            started,
            running[child][0],
            is_python=is_python(child),
            number=read_number(variables_of(child, NAMES), given),
        )
        for child, started in descendants(pid, {}, running).items()
    ]


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
