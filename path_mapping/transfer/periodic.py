"""Uploads outputs while the training runs: in rounds, and only files that nobody is writing."""

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

NICENESS = 10  # the training's processes come first
SETTLE_SECONDS = 5.0  # between the two listings of the files, unless the interval is short

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

    It is for a thread of its own, which becomes nice.

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
                    break  # what changed meanwhile is sent as soon as it is settled
        except Cancelled:
            return
        except Exception as error:  # whatever it is: the next round may do better
            failed(error)
        for index in ready:  # from the end of this round: missed ones are not made up
            due[index] = time.monotonic() + intervals[index]


def be_nice() -> None:
    """Makes this thread, and the processes that it starts, leave the processors to the training."""
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
        """Only as it was when it was idle: a file that has changed since waits for the next round."""
        return path in idle and before[path] == local and wanted(path, local)

    choice = UploadChoice(wanted=is_idle, settled=True, shared=shared)
    return upload(routes, base, to, choice=choice)


def settle_seconds(interval: float) -> float:
    """How long a file must not change: 5 s, or half of a short interval."""
    return min(SETTLE_SECONDS, interval / 2)


def idle_files(before: Entries, now: Entries, written: AbstractSet[str]) -> set[str]:
    """The files that have not changed since the earlier listing, and that nobody has open for writing."""
    return {path for path, entry in now.items() if before.get(path) == entry and path not in written}


def _entries(roots: Iterable[Path]) -> Entries:
    """All files of the outputs, and the empty directories."""
    entries: dict[str, LocalEntry] = {}
    for root in roots:
        single = local_entry(root)
        if single is not None and single.kind == "file":
            entries[str(root)] = single
        elif single is not None:
            entries.update({str(root / name): local for name, local in files_below(root)})
    return entries


def open_for_writing(roots: Iterable[Path]) -> set[str]:
    """The files below these paths that a process on this machine has open for writing, by /proc.

    Files of other users' processes, and files that are only memory-mapped, cannot be seen: for those, not
    changing between two listings must do.
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
