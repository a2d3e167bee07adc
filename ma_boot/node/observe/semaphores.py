"""Removes the POSIX semaphores that killed ranks leave in /dev/shm.

A semaphore lives until its file, `sem.NAME`, is unlinked. A process that is killed does not do so, and its
resource tracker (of Python's multiprocessing) is killed with it: each restart leaves more of them.

What is removed, as /dev/shm may be shared with other jobs and users: a file that
- belongs to this user, and that only this user may open,
- did not exist before the attempt began,
- was mapped by a process of this job while it ran, and never by a process that is none of it: a semaphore
  is used by mapping its file, so who creates one maps it;
- is mapped by no living process after the end of the attempt, and is still the same file (by its inode).
What cannot be known, as of a process of this user whose maps cannot be read, keeps the file. Only of what has
started ma_boot, such as PID 1 of a container, it is assumed that it uses none of the job's semaphores.
"""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.orphan_guard import descendants, running_processes
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.task import Task
from ma_boot.report.journal import Journal
from ma_boot.wording import counted

PLACE = Path("/dev/shm")
LOOK_SECONDS = 0.5
MOST_LOOKS = 6  # at a file that no process maps: who has created it is not known then
CLOSE_SECONDS = 1.0  # for /proc: reading the maps of a process may wait for a stuck driver
# A line of /proc/PID/maps. Its name is the one under which glibc makes the file, before it links it to its
# own name: only the inode tells which file it is.
_MAPPED = r"(?m)^\S+ \S+ \S+ \S+ (\d+) +{}/sem\."


class Semaphore(NamedTuple):
    """A file in `PLACE`."""

    name: str
    inode: int


class UnreadableMaps(Exception):
    """The maps of a process of this user cannot be read."""


class Semaphores:
    """Follows which semaphores the job creates, and removes those that are left; an `Observer` of an attempt.

    A thread looks at the directory, and at processes only when a new file is there.
    """

    without = "semaphores of killed ranks may stay in /dev/shm"

    def __init__(self, inbox: SignalInbox, journal: Journal, place: Path = PLACE) -> None:
        self._place, self._journal = place, journal
        self._not_ours = semaphores_in(place)  # those of before, and those that others map
        self._ours: set[Semaphore] = set()
        self._looks: dict[Semaphore, int] = {}
        self._inbox = inbox
        self._task = Task("semaphores", self._follow, inbox)

    def patience(self) -> float:
        """Forever: a thread looks."""
        return float("inf")

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Nothing stops the processes."""
        return ""

    def close(self) -> None:
        """All processes have ended: removes what they have left."""
        self._task.cancel()
        removal = Task("semaphores", lambda cancel: self._remove(), self._inbox)
        removal.wait(lambda: None, time.monotonic() + CLOSE_SECONDS)
        removal.check()

    def _follow(self, cancel: threading.Event) -> None:
        with self._journal.best_effort(self.without):
            while not cancel.wait(LOOK_SECONDS):
                self.look()

    def look(self) -> None:
        """Finds out whose the new semaphores are."""
        new = semaphores_in(self._place) - self._not_ours - self._ours
        if not new:
            return
        job = {os.getpid(), *descendants(os.getpid(), {})}
        mapped = {pid: mapped_by(pid, self._place) for pid in running_processes()}
        of_job = set().union(*(found for pid, found in mapped.items() if pid in job))
        of_others = set().union(*(found for pid, found in mapped.items() if pid not in job))
        for semaphore in new:
            self._looks[semaphore] = self._looks.get(semaphore, 0) + 1
            if semaphore.inode in of_others or self._looks[semaphore] > MOST_LOOKS:
                self._not_ours.add(semaphore)
            elif semaphore.inode in of_job:
                self._ours.add(semaphore)
        if new & self._ours:
            self._journal.event("semaphores", known=len(self._ours), removed=0)

    def _remove(self) -> None:
        left = semaphores_in(self._place) & self._ours
        if not left:
            return
        with suppress(UnreadableMaps, FileNotFoundError):
            running = running_processes()
            above = ancestors({pid: parent for pid, (parent, _) in running.items()})
            held = set().union(*(mapped_by(pid, self._place, strict=pid not in above) for pid in running))
            unheld = [semaphore for semaphore in left if semaphore.inode not in held]
            for name, inode in unheld:
                path = self._place / name
                if path.lstat().st_ino == inode:
                    path.unlink()
            count = len(unheld)
            self._journal.event("semaphores", known=len(self._ours), removed=count)
            if count:
                what = counted(count, "semaphore")
                self._journal.say(f"removed {what} that ended processes left in {self._place}")


def ancestors(parents: Mapping[int, int]) -> set[int]:
    """The processes that have started this one, directly or not."""
    found: set[int] = set()
    pid = parents.get(os.getpid(), 0)
    while pid in parents and pid not in found:
        found.add(pid)
        pid = parents[pid]
    return found


def semaphores_in(place: Path) -> set[Semaphore]:
    """The semaphores that belong to this user, and that no other one may open."""
    found: set[Semaphore] = set()
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if not entry.name.startswith("sem."):
                continue
            with suppress(OSError):  # it has just been removed
                state = entry.stat(follow_symlinks=False)
                is_own = state.st_uid == os.geteuid() and not stat.S_IMODE(state.st_mode) & 0o077
                if is_own and stat.S_ISREG(state.st_mode):
                    found.add(Semaphore(entry.name, state.st_ino))
    return found


def mapped_by(pid: int, place: Path, strict: bool = False) -> set[int]:
    """The inodes of the semaphores in this directory that a process maps.

    Raises `UnreadableMaps`, if `strict`, where a process of this user does not show them.
    """
    maps = Path(f"/proc/{pid}/maps")
    try:
        text = maps.read_text(errors="surrogateescape")
    except PermissionError:
        if strict and maps.parent.stat().st_uid == os.geteuid():
            raise UnreadableMaps from None
        return set()
    except OSError:  # it has just ended
        return set()
    return set(map(int, re.findall(_MAPPED.format(re.escape(str(place))), text)))
