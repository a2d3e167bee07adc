"""Waits until the platform has completed the file of the rank table."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Callable

from ma_boot.errors import RankTableTimeout, listed
from ma_boot.platform.rank_table import NotYet, completed_document
from ma_boot.processes.task import REMIND_SECONDS
from ma_boot.wording import Message, ProgressLine, WarningLine

# Seconds between two calls of stat; the file is read if the result differs.
POLL_SECONDS = 0.02
# Seconds after which the file is read anyway: some mounts do not update its time.
REREAD_SECONDS = 1.0
# Seconds; a longer wait is reported in the log, a shorter one as progress only.
USUAL_SECONDS = 10.0
# Seconds; a table that is mounted by itself is seldom completed later.
ALONE_SECONDS = 60.0
_NEVER_UPDATED = (
    "is mounted by itself, so a later table does not reach this container if that is a ConfigMap with "
    "subPath: mount its directory"
)


def wait_until_completed(
    path: str,
    timeout: float,
    *,
    sleep: Callable[[float], None],
    check: Callable[[], None],
    say: Callable[[str], None],
    accept: Callable[[dict[str, Any]], NotYet | None] = lambda document: None,
) -> dict[str, Any]:
    """Waits at most `timeout` seconds for the completed table and returns its document.

    The file is reopened by path each time, since a ConfigMap is updated by replacing a symbolic link. `sleep`
    may return early; `check` raises to cancel the wait; `say` gets a line whenever the reason for waiting
    changes, and at least every 20 s (ModelArts takes half an hour of silence for a hang). `accept` returns a
    reason to keep waiting although the table is completed. Raises `RankTableTimeout` with the last reason and
    the age of the file, and what `check` and `accept` raise.
    """
    started = time.monotonic()
    reason, reported_at, alone = "", started, False
    status, read_at, state = (0, 0, 0), 0.0, NotYet("")
    while True:
        check()
        now = time.monotonic()
        if _status(path) != status or now - read_at >= REREAD_SECONDS:
            status, read_at = _status(path), now
            document = _read(path)
            not_yet = document if isinstance(document, NotYet) else accept(document)
            if not_yet is None and not isinstance(document, NotYet):
                return document
            state = not_yet or state
        if now - started >= timeout:
            raise RankTableTimeout(_timeout_message(path, timeout, state.reason))
        if state.reason != reason or now - reported_at >= REMIND_SECONDS:
            line = f"waiting for {path}: {state.reason} ({now - started:.0f} s of {timeout:.0f} s)"
            say(line if now - started >= USUAL_SECONDS else ProgressLine(line))
            reason, reported_at = state.reason, now
        if not alone and now - started >= ALONE_SECONDS and _mounted_alone(path):
            alone = True
            say(WarningLine(f"{path} {_NEVER_UPDATED}"))
        sleep(min(POLL_SECONDS, timeout))


def _status(path: str) -> tuple[int, int, int]:
    """Returns values that change with the file, through all links, so that an unchanged one is not read."""
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0, -1)
    return (status.st_ino, status.st_mtime_ns, status.st_size)


def _read(path: str) -> dict[str, Any] | NotYet:
    try:
        return completed_document(Path(path).read_bytes())
    except FileNotFoundError:
        return NotYet("the file does not exist yet")
    except OSError as error:
        return NotYet(f"the file cannot be read: {error.strerror}")


def _mounted_alone(path: str) -> bool:
    """Tells if the file is a mount of its own, such as a ConfigMap that is mounted with `subPath`."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    places = (line.split(" ")[4] for line in mounts if line.count(" ") > 4)
    return os.path.realpath(path).replace(" ", "\\040") in places


def _timeout_message(path: str, timeout: float, reason: str) -> str:
    advice = [f"the mount: this file {_NEVER_UPDATED}"] if _mounted_alone(path) else []
    state = f"{path}: {reason}{_age(path)}"
    return listed(
        Message.of("the rank table was not completed within {} s: {}; check", f"{timeout:.0f}", state),
        [
            *advice,
            Message("the job's events: did every node of the job start?"),
            Message("RANK_TABLE_FILE in the job's environment variables: /user/config on ModelArts"),
            Message(
                "the timeout (--rank-table-timeout, or --timeout of `rank-table wait`), if nodes start late"
            ),
        ],
    )


def _age(path: str) -> str:
    try:
        seconds = time.time() - os.stat(path).st_mtime
    except OSError:
        return ""
    return f" (last written {seconds:.0f} s ago)"
