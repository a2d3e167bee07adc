"""Uploads outputs while the training runs: one round at a time, of files that have become quiet."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Callable, Dict, Iterable, Optional, Sequence, Set

from path_mapping.errors import Cancelled, PathMappingError
from path_mapping.mapping import Route
from path_mapping.planning import LocalEntry, UploadChoice, files_below, look
from path_mapping.stores import Store
from path_mapping.transfer.quiet import Look, Schedule, quiet, settle_seconds
from path_mapping.transfer.transfer import Transferred, upload

NICENESS = 10  # the training's processes go first


def upload_periodically(
    routes: Sequence[Route],
    base: Path,
    store: Store,
    *,
    cancel: threading.Event,
    done: Callable[[Transferred], None],
    failed: Callable[[Exception], None],
) -> None:
    """Uploads each route at its interval until `cancel` is set; for a thread of its own, which becomes nice.

    A round that fails is told, and the next one tries again: nothing is raised.
    """
    timed = [route for route in routes if route.interval is not None]
    if not timed:
        return
    with suppress(OSError, AttributeError):  # of this thread alone, and of the processes that it starts
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
    schedule = Schedule.starting([route.interval or 0.0 for route in timed], time.monotonic())
    while not cancel.wait(schedule.wait(time.monotonic())):
        ready = schedule.ready(time.monotonic())
        try:
            moved = _round([timed[number] for number in ready], base, store, cancel)
            if moved is not None and moved.files:
                done(moved)
        except Cancelled:
            return
        except (PathMappingError, OSError) as error:
            failed(error)
        schedule = schedule.after(ready, time.monotonic())


def _round(
    routes: Sequence[Route], base: Path, store: Store, cancel: threading.Event
) -> Optional[Transferred]:
    roots = [route.path(base) for route in routes]
    before = _looks(roots)
    if cancel.wait(min(settle_seconds(route.interval or 0.0) for route in routes)):
        return None
    settled = quiet(before, _looks(roots), open_for_writing(roots))

    def wanted(path: Path, local: LocalEntry) -> bool:
        """Only as it was when it was quiet: what has changed since waits for the next round."""
        return str(path) in settled and before[str(path)] == Look(local.size, local.mtime_ns)

    choice = UploadChoice(wanted=wanted)
    return upload(routes, base, store, cancel=cancel, progress=lambda now: None, choice=choice)


def _looks(roots: Iterable[Path]) -> Dict[str, Look]:
    """All files of the outputs, and the empty directories."""
    found: Dict[str, Look] = {}
    for root in roots:
        single = look(root)
        if single is not None and single.kind == "file":
            found[str(root)] = Look(single.size, single.mtime_ns)
        elif single is not None:
            for name, local in files_below(root):
                found[str(root / name)] = Look(local.size, local.mtime_ns)
    return found


def open_for_writing(roots: Iterable[Path]) -> Set[str]:
    """The files below these paths that a process here has open for writing, as /proc tells.

    Other users' processes do not tell, and files that are only mapped are not seen: those files must hold
    still to count as quiet, like all others.
    """
    inside = [(os.path.realpath(root), str(root)) for root in roots]
    written: Set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            for number in os.listdir(process / "fd"):
                with suppress(OSError):  # closed meanwhile
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
