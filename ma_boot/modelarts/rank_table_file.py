"""The rank table on disk: wait until the platform has completed it, write ours in one step."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Tuple, Union

from ma_boot.errors import CannotCreate, RankTableTimeout, listed
from ma_boot.processes import REMIND_SECONDS
from ma_boot.rank_table import NotYet, completed_document

POLL_SECONDS = 0.02  # of a stat; the file is read when that differs
TRUST_SECONDS = 1.0  # some mounts tell no new time: then it is read all the same


def wait_until_completed(
    path: str,
    timeout: float,
    *,
    sleep: Callable[[float], None],
    check: Callable[[], None],
    say: Callable[[str], None],
    taken: Callable[[Dict[str, Any]], Optional[NotYet]],
    decode: Callable[[bytes], str] = bytes.decode,
) -> Dict[str, Any]:
    """The completed table's document, at most `timeout` seconds from now.

    The file is opened anew by its path at each look, since a ConfigMap is replaced by swapping a link.
    `sleep` may return early; `check` raises to end the wait; `say` gets a line whenever the reason for
    waiting changes and at least every 20 s (the platform takes half an hour of silence for a hang);
    `taken` tells why a completed table is not to be taken all the same; `decode` makes text of the file and
    raises `ValueError` for half of one. Raises `RankTableTimeout` with the
    last reason and the age of the file, and whatever `taken` raises.
    """
    started = time.monotonic()
    reason, said_at = "", started
    mark, looked_at, state = (0, 0, 0), 0.0, NotYet("")
    while True:
        check()
        now = time.monotonic()
        if _mark(path) != mark or now - looked_at >= TRUST_SECONDS:
            mark, looked_at = _mark(path), now
            found = _look(path, decode)
            refused = found if isinstance(found, NotYet) else taken(found)
            if refused is None and not isinstance(found, NotYet):
                return found
            state = refused or state
        if now - started >= timeout:
            raise RankTableTimeout(_timeout_message(path, timeout, state.reason))
        if state.reason != reason or now - said_at >= REMIND_SECONDS:
            say(f"waiting for {path}: {state.reason} ({now - started:.0f} s of {timeout:.0f} s)")
            reason, said_at = state.reason, now
        sleep(min(POLL_SECONDS, timeout))


def _mark(path: str) -> Tuple[int, int, int]:
    """What changes when the file does, through every link; a large table is not read anew for nothing."""
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0, -1)
    return (status.st_ino, status.st_mtime_ns, status.st_size)


def _look(path: str, decode: Callable[[bytes], str]) -> Union[Dict[str, Any], NotYet]:
    try:
        return completed_document(decode(Path(path).read_bytes()))
    except FileNotFoundError:
        return NotYet("the file does not exist yet")
    except OSError as error:
        return NotYet(f"the file cannot be read: {error.strerror}")
    except ValueError as error:
        return NotYet(f"the file is not whole yet: {error}")


def _timeout_message(path: str, timeout: float, reason: str) -> str:
    return listed(
        f"the rank table was not completed within {timeout:.0f} s: {path}: {reason}{_age(path)}; check",
        [
            "the job's events: did every node of the job start?",
            "RANK_TABLE_FILE in the job's environment: /user/config on ModelArts",
            "a longer time (--rank-table-timeout, of `rank-table wait` --timeout), when nodes come later",
        ],
    )


def _age(path: str) -> str:
    try:
        seconds = time.time() - os.stat(path).st_mtime
    except OSError:
        return ""
    return f" (last written {seconds:.0f} s ago)"


def write_atomically(path: Path, text: str) -> None:
    """Writes the file so that a reader sees all of it or the one before; mode 0640, parents are made.

    Raises `CannotCreate`.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                os.fchmod(file.fileno(), 0o640)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise CannotCreate(f"cannot write {path}: {error.strerror}") from error
