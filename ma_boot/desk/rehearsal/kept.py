"""Finds rehearsals by the mark that each one leaves in its directory, and removes those that are over.

The mark is locked while the rehearsal runs: whatever ends it, the kernel takes the lock away. A directory
without a mark, of another user, behind a link or with another name than in its mark is not ours.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from ma_boot.errors import CannotCreate, ConfigError, listed
from ma_boot.report.files import read_end
from ma_boot.report.timeline.events import read_events

MARK = "rehearsal.json"
PAGE = "report.html"
_NAME = r"ma-job-[0-9a-f]{8}"
# The event of the end is the last one of its file.
_END_BYTES = 16_000


class KeptRehearsal(NamedTuple):
    """A rehearsal in `path`: its command, when it began (seconds since 1970), and how it ended.

    `exit_code` is None for one that runs or has left no event of its end; `page` is None without a page.
    """

    path: Path
    command: str
    began: float
    running: bool
    exit_code: int | None
    cause: str
    page: Path | None

    @property
    def name(self) -> str:
        """The name of its directory."""
        return self.path.name

    def bytes(self) -> int:
        """Bytes of its files on the disk."""
        total = 0
        for directory, _, names in os.walk(self.path):
            for name in names:
                with suppress(OSError):
                    total += os.lstat(os.path.join(directory, name)).st_blocks * 512
        return total


@contextmanager
def sandbox(root: Path, command: str, events: Path) -> Iterator[None]:
    """Creates the directory of a rehearsal, which its mark shows to be ours, and to run during the block.

    If the rehearsal has not begun by the end of the block, and so has no `events`, the directory is removed,
    and its parent too if it is empty.

    Raises:
        CannotCreate: The directory or its mark cannot be created.
    """
    mark = {"rehearsal": root.name, "command": command, "began": time.time()}
    with ExitStack() as stack:
        try:
            root.mkdir(parents=True)
            stack.callback(_remove_unless_begun, root, events)
            descriptor = os.open(root / MARK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.write(descriptor, (json.dumps(mark) + "\n").encode("utf-8", "backslashreplace"))
        except OSError as error:
            raise CannotCreate(f"cannot create the sandbox {root}: {error.strerror}") from error
        yield


def _remove_unless_begun(root: Path, events: Path) -> None:
    if not events.exists():
        shutil.rmtree(root, ignore_errors=True)
        with suppress(OSError):  # others are in there, which is why rmdir
            root.parent.rmdir()


def kept_in(directory: Path) -> list[KeptRehearsal]:
    """The rehearsals in a directory, the newest first; none if it does not exist."""
    try:
        names = [name for name in os.listdir(directory) if re.fullmatch(_NAME, name)]
    except OSError:
        return []
    rehearsals: list[KeptRehearsal | None] = []
    for name in names:
        with suppress(FileNotFoundError):  # another rehearsal has just removed it
            rehearsals.append(_kept(directory / name))
    return sorted(filter(None, rehearsals), key=lambda rehearsal: rehearsal.began, reverse=True)


def named(directory: Path, names: Sequence[str]) -> list[KeptRehearsal]:
    """The rehearsals of these names; a part that only one has is enough.

    Raises:
        ConfigError: No rehearsal of ours has the name, or several have it.
    """
    every, chosen, problems = kept_in(directory), [], []
    for name in names:
        same = [rehearsal for rehearsal in every if rehearsal.name == name]
        fitting = same or [rehearsal for rehearsal in every if name in rehearsal.name]
        if len(fitting) == 1:
            chosen.append(fitting[0])
        else:
            several = ", ".join(rehearsal.name for rehearsal in fitting[:4])
            problems.append(
                f"{name}: " + (f"several have that in their name: {several}" if fitting else "none")
            )
    if problems:
        raise ConfigError(listed(f"expected rehearsals in {directory} (ma_boot rehearsal list):", problems))
    return chosen


def remove(rehearsal: KeptRehearsal) -> None:
    """Removes a rehearsal with all its files.

    Raises:
        ConfigError: It runs, or is not ours any more.
        CannotCreate: Its files cannot be removed, at least not all.
    """
    with _locked(rehearsal.path) as free:
        if not free:
            raise ConfigError(f"{rehearsal.path} is running, or is no rehearsal of ours: it stays")
        # The mark goes last: what cannot be removed now can be removed later.
        for name in [*(name for name in os.listdir(rehearsal.path) if name != MARK), MARK]:
            path = rehearsal.path / name
            try:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
            except OSError as error:
                raise CannotCreate(f"cannot remove {error.filename or path}: {error.strerror}") from error
        with suppress(OSError):
            rehearsal.path.rmdir()


def pruned(directory: Path, keep: int) -> tuple[int, list[str]]:
    """Removes the oldest rehearsals beyond `keep`, never one that runs: how many, and what went wrong."""
    removed, problems = 0, []
    for rehearsal in kept_in(directory)[keep:]:
        if rehearsal.running:
            continue
        try:
            remove(rehearsal)
            removed += 1
        except (ConfigError, CannotCreate) as error:
            problems.append(str(error))
    return removed, problems


def _kept(path: Path) -> KeptRehearsal | None:
    mark = _mark(path)
    if mark is None:
        return None
    with _locked(path) as free:
        running = not free
    end = {} if running else _end_of(path)
    code, began = end.get("rehearsal_exit_code", end.get("exit_code")), mark.get("began")
    page = path / PAGE
    return KeptRehearsal(
        path=path,
        command=str(mark.get("command", "")),
        began=float(began) if isinstance(began, (int, float)) else 0.0,
        running=running,
        exit_code=code if isinstance(code, int) else None,
        cause=str(end.get("cause", "")).split("\n", 1)[0],
        page=page if page.exists() else None,
    )


def _mark(path: Path) -> dict[str, Any] | None:
    """Reads the mark of a rehearsal; None for a foreign directory."""
    try:
        directory, file = os.lstat(path), os.lstat(path / MARK)
        mine = os.geteuid() in (0, directory.st_uid)
        if not mine or not stat.S_ISDIR(directory.st_mode) or not stat.S_ISREG(file.st_mode):
            return None
        mark = json.loads((path / MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return mark if isinstance(mark, dict) and mark.get("rehearsal") == path.name else None


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Yields whether the rehearsal is ours and over, and locks it during the block."""
    if _mark(path) is None:
        yield False
        return
    try:
        descriptor = os.open(path / MARK, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        yield False
        return
    try:
        yield True
    finally:
        os.close(descriptor)


def _end_of(path: Path) -> dict[str, Any]:
    """Returns the event of a rehearsal's end; empty if there is none."""
    for file in (path / "log").glob("*-events.jsonl"):
        with suppress(OSError):
            for event in reversed(read_events(read_end(file, _END_BYTES)).events):
                if event["kind"] == "job-end":
                    return dict(event)
    return {}
