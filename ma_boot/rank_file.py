"""The rank table on disk: wait until the platform has completed it, write ours in one step."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, Union

from ma_boot.errors import CannotCreate, RankTableTimeout, listed
from ma_boot.rank_table import NotYet, completed_document
from ma_boot.task import REMIND_SECONDS

POLL_SECONDS = 0.05


def wait_until_completed(
    path: str,
    timeout: float,
    *,
    sleep: Callable[[float], None],
    check: Callable[[], None],
    say: Callable[[str], None],
) -> Dict[str, Any]:
    """The completed table's document, at most `timeout` seconds from now.

    The file is opened anew by its path at each look, since a ConfigMap is replaced by swapping a link.
    `sleep` may return early; `check` raises to end the wait; `say` gets a line whenever the reason for
    waiting changes and at least every 20 s (the platform takes half an hour of silence for a hang).
    Raises `RankTableTimeout` with the last reason.
    """
    started = time.monotonic()
    reason, said_at = "", started
    while True:
        check()
        state = _look(path)
        if not isinstance(state, NotYet):
            return state
        now = time.monotonic()
        if now - started >= timeout:
            raise RankTableTimeout(_timeout_message(path, timeout, state.reason))
        if state.reason != reason or now - said_at >= REMIND_SECONDS:
            say(f"waiting for {path}: {state.reason} ({now - started:.0f} s of {timeout:.0f} s)")
            reason, said_at = state.reason, now
        sleep(min(POLL_SECONDS, timeout))


def _look(path: str) -> Union[Dict[str, Any], NotYet]:
    try:
        return completed_document(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return NotYet("the file does not exist yet")
    except UnicodeDecodeError:
        return NotYet("the file is not whole UTF-8 yet")
    except OSError as error:
        return NotYet(f"the file cannot be read: {error.strerror}")


def _timeout_message(path: str, timeout: float, reason: str) -> str:
    return listed(
        f"the rank table was not completed within {timeout:.0f} s: {path}: {reason}; check",
        [
            "the job's events: did every node of the job start?",
            "RANK_TABLE_FILE in the job's environment: /user/config on ModelArts",
            "--rank-table-timeout, when nodes are expected to come later",
        ],
    )


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
