"""Directories of rehearsals: created with a mark, found by it, and removed when newer ones replace them.

The mark is a file that is locked while the rehearsal runs; the kernel releases the lock however it ends. A
directory without a mark, of another user, behind a link or with another name than in its mark is foreign.
Running rehearsals and foreign directories are never removed.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from ma_boot.errors import CannotCreate, ConfigError
from ma_boot.wording import list_first

MARK = "rehearsal.json"
PAGE = "report.html"
_GITIGNORE, _ALL = ".gitignore", "# made by ma_boot\n*\n"
_NAME = r"ma-job-[0-9a-f]{8}"
_MOST_NAMED = 4


class KeptRehearsal(NamedTuple):
    """A rehearsal in `path`, which began at `began` (seconds since 1970)."""

    path: Path
    began: float
    is_running: bool

    @property
    def page(self) -> Path | None:
        """The page of the whole job, if it was written."""
        page = self.path / PAGE
        return page if page.exists() else None


@contextmanager
def sandbox(root: Path, command: str, events: Path) -> Iterator[None]:
    """Creates the directory of a rehearsal, with a mark that is locked during the block.

    A rehearsal that has no file `events` at the end of the block has not begun: its directory is removed, and
    the parent too if it is empty.

    Raises:
        CannotCreate: The directory or its mark cannot be created.
    """
    mark = {"rehearsal": root.name, "command": command, "began": time.time()}
    with ExitStack() as stack:
        try:
            _make(root)
            stack.callback(_remove_unless_begun, root, events)
            descriptor = os.open(root / MARK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.write(descriptor, (json.dumps(mark) + "\n").encode("utf-8", "backslashreplace"))
        except OSError as error:
            raise CannotCreate(f"cannot create the sandbox {root}: {error.strerror}") from error
        yield


def _make(root: Path) -> None:
    """Creates the directory; git ignores all rehearsals beside it, if their directory is new."""
    is_new = not root.parent.exists()
    root.mkdir(parents=True)
    if is_new:
        (root.parent / _GITIGNORE).write_text(_ALL, encoding="ascii")


def _remove_unless_begun(root: Path, events: Path) -> None:
    if events.exists():
        return
    shutil.rmtree(root, ignore_errors=True)
    with suppress(OSError):
        ignored = root.parent / _GITIGNORE
        if os.listdir(root.parent) == [_GITIGNORE] and ignored.read_text(encoding="ascii") == _ALL:
            ignored.unlink()
        root.parent.rmdir()  # fails where it holds other files


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


def find_page(directory: Path, name: str | None) -> Path:
    """Returns the page of the rehearsal of this name, by default of the newest one that has a page.

    A part of a name is enough if it is unique.

    Raises:
        ConfigError: no rehearsal has the name, several have it, or none has a page.
    """
    rehearsals = kept_in(directory)
    if name is not None:
        named = [kept for kept in rehearsals if kept.path.name == name]
        rehearsals = named or [kept for kept in rehearsals if name in kept.path.name]
        if len(rehearsals) != 1:
            names = [kept.path.name for kept in rehearsals] or ["none"]
            found = list_first(names, _MOST_NAMED)
            raise ConfigError(f"expected one rehearsal in {directory} with {name} in its name, found {found}")
    page = next(filter(None, (kept.page for kept in rehearsals)), None)
    if page is None:
        raise ConfigError(f"no page of {name or 'a rehearsal'} in {directory}: is it still running?")
    return page


def remove(rehearsal: KeptRehearsal) -> None:
    """Removes a rehearsal with all its files.

    Raises:
        ConfigError: it is running, or the directory has become a foreign one.
        CannotCreate: a file cannot be removed.
    """
    with _locked(rehearsal.path) as free:
        if not free:
            raise ConfigError(f"{rehearsal.path} is running, or was not made by this user: it stays")
        # The mark goes last, so that a directory with files that remain can be removed later.
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


def prune(directory: Path, keep: int) -> tuple[int, list[str]]:
    """Removes the oldest rehearsals beyond the `keep` newest; returns their number, and the problems."""
    removed, problems = 0, []
    for rehearsal in kept_in(directory)[keep:]:
        if rehearsal.is_running:
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
    began = mark.get("began")
    with _locked(path) as free:
        return KeptRehearsal(path, float(began) if isinstance(began, (int, float)) else 0.0, not free)


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
