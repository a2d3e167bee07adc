"""Stray files: written by the training outside of all outputs. ModelArts deletes them with the container."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ma_boot.node.boot.launch_phase import ENVIRONMENT_FILE
from ma_boot.node.boot.process_context import ProcessContext
from ma_boot.node.boot.rank_table_phase import own_table_file
from ma_boot.node.environment.generated_files import is_generated
from ma_boot.node.launch.launch_plan import LaunchPlan
from ma_boot.node.transfers.mapping import NodeTransfers, outputs_of
from ma_boot.platform.modelarts.job import JobEnvironment, read_channels
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.task import Task
from ma_boot.report.journal import Journal
from ma_boot.wording import counted, size
from path_mapping.errors import printable

# Files and directories; a search reads no more entries.
MOST_ENTRIES = 20_000
# Seconds; deadline of a search, without and with a stop signal, whose grace period is for uploads.
LOOK_SECONDS = 2.0
HURRIED_SECONDS = 0.2
# Seconds after the deadline until a search is abandoned: a file system that does not answer blocks it.
GIVEN_UP_SECONDS = 0.5
# Files named in the warning, the largest ones.
MOST_NAMED = 3

# Blanks, tabs, newlines and backslashes in mountinfo (proc(5)).
_ESCAPED = re.compile(r"\\([0-7]{3})")
# Names in the top directory of a Python environment.
ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")


class Look(NamedTuple):
    """Search for stray files in the directories `roots`, except for the paths in `kept`.

    A file is stray if its content was written after `since_ns` (nanoseconds since the epoch). Paths are real
    ones, without links. Names in messages are relative to the first root.
    """

    roots: tuple[str, ...]
    kept: tuple[str, ...]
    since_ns: int


class StrayFiles(NamedTuple):
    """Stray files with their sizes in bytes, the largest first; all of them if the search is `complete`."""

    files: tuple[tuple[str, int], ...]
    complete: bool

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(length for _, length in self.files)

    def line(self) -> str:
        """Returns the warning: `2 files (180 MB) were written outside of the outputs ...`."""
        count = len(self.files)
        names = ", ".join(printable(name) for name, _ in self.files[:MOST_NAMED])
        more = ", ..." if count > MOST_NAMED else ""
        least = "" if self.complete else "at least "
        verbs = ("was", "is", "it") if count == 1 else ("were", "are", "them")
        return (
            f"{least}{counted(count, 'file')} ({size(self.bytes)}) {verbs[0]} written outside of the outputs "
            f"and {verbs[1]} lost on ModelArts: {names}{more}; save {verbs[2]} below an output"
        )


def planned_look(
    plan: LaunchPlan, job: JobEnvironment, transfers: NodeTransfers | None, context: ProcessContext
) -> Look | None:
    """Returns the search for files written from now on; None where the working directory outlives the job.

    That is so on all platforms but ModelArts, and in their rehearsals.
    """
    if job.platform.name != "modelarts":
        return None
    routes = (*outputs_of(transfers), *(transfers.mapping.caches if transfers else ()))
    outputs = [str(route.path(transfers.base)) for route in routes] if transfers else []
    form = [channel.local_dir for channel in read_channels(context.environ)[0] if channel.kind == "outputs"]
    # Files of ma_boot, and CANN's logs below ~/ascend.
    ours = [job.log_dir, own_table_file(job), os.path.join(job.home, "ascend")]
    for worker in plan.workers:
        ours += [worker.environ.get("ASCEND_PROCESS_LOG_PATH", ""), os.path.dirname(worker.log_file)]
        ours += [os.path.join(worker.cwd, ENVIRONMENT_FILE)]
    searched = {place for worker in plan.workers for place in worker.environ.get("PATH", "").split(":")}
    # The "code" of a program such as /usr/bin/bash is a directory in PATH.
    code = plan.code if plan.code is not None and plan.code not in searched else ""
    roots = [context.cwd, *(worker.cwd for worker in plan.workers), job.job_dir, code]
    return Look(_real(roots), _real([*outputs, *form, *ours]), time.time_ns())


def _real(paths: Sequence[str]) -> tuple[str, ...]:
    # Without repetitions first: all ranks name the same paths, and each one costs a system call.
    named = dict.fromkeys(path for path in paths if path)
    return tuple(dict.fromkeys(map(os.path.realpath, named)))


def report_stray_files(look: Look | None, journal: Journal, inbox: SignalInbox) -> None:
    """Prints a warning that names the stray files, and writes its event, if there are any."""
    if look is None:
        return
    deadline = time.monotonic() + (HURRIED_SECONDS if inbox.stops else LOOK_SECONDS)
    # A thread can be abandoned: a file system that does not answer blocks even a stat.
    task = Task("stray files", lambda cancel: find_stray_files(look, deadline), inbox)
    if not task.wait(lambda: None, deadline + GIVEN_UP_SECONDS):
        journal.warn("files outside of the outputs were not looked for: a file system does not answer")
        return
    found = task.result()
    if not found.files:
        return
    names = [name for name, _ in found.files[:MOST_NAMED]]
    journal.event(
        "stray files", files=len(found.files), bytes=found.bytes, names=names, complete=found.complete
    )
    journal.warn(found.line())


def find_stray_files(look: Look, deadline: float) -> StrayFiles:
    """Searches the roots until the monotonic `deadline` (seconds), for at most `MOST_ENTRIES` entries."""
    files: list[tuple[str, int]] = []
    complete, kept, looked_at = True, set(look.kept), 0
    for entry in _entries(look.roots, kept):
        looked_at += 1
        if looked_at > MOST_ENTRIES or time.monotonic() >= deadline:
            complete = False
            break
        if entry.path in kept or not entry.is_file(follow_symlinks=False):
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            # Removed since it was listed.
            continue
        if status.st_mtime_ns >= look.since_ns:
            files.append((_name(entry.path, look.roots[0]), status.st_size))
    return StrayFiles(tuple(sorted(files, key=lambda file: (-file[1], file[0]))), complete)


def _name(path: str, root: str) -> str:
    return path[len(root) + 1 :] if path.startswith(root + os.sep) else path


def _entries(roots: Sequence[str], kept: set[str]) -> Iterator[os.DirEntry[str]]:
    """Yields the entries below the roots that may be stray or lead to stray files, the topmost ones first.

    Skips links and mounts, whose content outlives the job. A mount is not even read: a process that reads a
    file system without an answer cannot end.
    """
    waiting, seen, mounts = deque(roots), set[str](), _mounts()
    while waiting:
        directory = waiting.popleft()
        if directory in seen or directory in kept:
            continue
        seen.add(directory)
        try:
            with os.scandir(directory) as listed:
                entries = list(listed)
        except OSError:
            # Removed since it was listed, or not readable for this user.
            continue
        if directory not in roots and any(entry.name in ENVIRONMENT_MARKS for entry in entries):
            continue
        for entry in entries:
            if entry.path in mounts or is_generated(entry.path):
                continue
            yield entry
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)


def _mounts() -> set[str]:
    """Returns the mount points of this process."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return {_ESCAPED.sub(lambda code: chr(int(code[1], 8)), line.split(" ")[4]) for line in lines}
