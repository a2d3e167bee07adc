"""Uploads outputs while the training runs: in rounds, and only files that are not being written."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Sequence, Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Callable, Mapping

from path_mapping.errors import Cancelled
from path_mapping.mapping.routes import Route
from path_mapping.planning.local_tree import files_below, local_entry
from path_mapping.planning.plan import LocalEntry
from path_mapping.planning.prepare import UploadChoice
from path_mapping.planning.shared_target import SharedTarget
from path_mapping.transfer.transfer import Transferred, upload
from path_mapping.workers.retry import RetriedStore

# The niceness of uploads: the training's processes come first.
NICENESS = 10
# Seconds between the two listings of the files, less for a short interval.
SETTLE_SECONDS = 5.0

Entries = Mapping[str, LocalEntry]  # by path


def upload_periodically(
    routes: Sequence[Route],
    base: Path,
    to: RetriedStore,
    *,
    done: Callable[[Transferred], None],
    failed: Callable[[Exception], None],
    wanted: Callable[[str, LocalEntry], bool] = lambda path, local: True,
    shared: SharedTarget | None = None,
) -> None:
    """Uploads each route at its interval until `cancel` of the store is set.

    It runs in a thread of its own, whose priority it lowers.

    `done` is called after a round that uploaded something, `failed` with the error of a round that failed;
    the next round tries again. `wanted` returns whether a file is uploaded at all, `shared` is for
    `UploadChoice`. Raises nothing.
    """
    timed = [route for route in routes if route.interval is not None]
    if not timed:
        return
    be_nice()
    intervals = [route.interval or 0.0 for route in timed]
    due = [time.monotonic() + interval for interval in intervals]
    while not to.cancel.wait(max(0.0, min(due) - time.monotonic())):
        begun = time.monotonic()
        ready = [index for index, seconds in enumerate(due) if seconds <= begun]
        chosen = [timed[index] for index in ready]
        try:
            while True:
                moved = _round(chosen, base, to, wanted, shared)
                if moved is not None and moved.files:
                    done(moved)
                late = time.monotonic() - begun > max(intervals[index] for index in ready)
                if moved is None or not moved.deferred or late:
                    break  # deferred files are sent in further rounds, until the interval is over
        except Cancelled:
            return
        except Exception as error:  # any error: the next round may succeed
            failed(error)
        # From the end of this round: missed rounds are not made up.
        for index in ready:
            due[index] = time.monotonic() + intervals[index]


def be_nice() -> None:
    """Lowers the priority of this thread, and of processes that it starts, below that of the training."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def _round(
    routes: Sequence[Route],
    base: Path,
    to: RetriedStore,
    wanted: Callable[[str, LocalEntry], bool],
    shared: SharedTarget | None,
) -> Transferred | None:
    roots = [route.path(base) for route in routes]
    before = _entries(roots)
    if to.cancel.wait(min(settle_seconds(route.interval or 0.0) for route in routes)):
        return None
    idle = idle_files(before, _entries(roots), open_for_writing(roots))

    def is_idle(path: str, local: LocalEntry) -> bool:
        """Tells whether a file was idle and has not changed since: others wait for the next round."""
        return path in idle and before[path] == local and wanted(path, local)

    choice = UploadChoice(wanted=is_idle, settled=True, shared=shared)
    return upload(routes, base, to, choice=choice)


def settle_seconds(interval: float) -> float:
    """Returns the seconds for which a file must not change: 5, or half of a short interval."""
    return min(SETTLE_SECONDS, interval / 2)


def idle_files(before: Entries, now: Entries, written: AbstractSet[str]) -> set[str]:
    """Returns the files that have not changed since the earlier listing and are not open for writing."""
    return {path for path, entry in now.items() if before.get(path) == entry and path not in written}


def _entries(roots: Iterable[Path]) -> Entries:
    """Returns all files of the outputs, and the empty directories."""
    entries: dict[str, LocalEntry] = {}
    for root in roots:
        single = local_entry(root)
        if single is not None and single.kind == "file":
            entries[str(root)] = single
        elif single is not None:
            entries.update({str(root / name): local for name, local in files_below(root)})
    return entries


def open_for_writing(roots: Iterable[Path]) -> set[str]:
    """Returns the files below these paths that a process on this machine has open for writing, by /proc.

    Files of other users' processes, and files that are only memory-mapped, are not visible: they are idle if
    they do not change between two listings.
    """
    inside = [(os.path.realpath(root), str(root)) for root in roots]
    written: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            for number in os.listdir(process / "fd"):
                with suppress(OSError):  # closed in the meantime
                    target = os.readlink(process / "fd" / number)
                    paths = [
                        root + target[len(real) :]
                        for real, root in inside
                        if target == real or target.startswith(real + os.sep)
                    ]
                    if paths and _writes(process / "fdinfo" / number):
                        written.update(paths)
    return written


def _writes(fdinfo: Path) -> bool:
    for line in fdinfo.read_text().splitlines():
        if line.startswith("flags:"):
            return int(line.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
    return False
