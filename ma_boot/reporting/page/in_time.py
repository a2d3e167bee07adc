"""Writes the page of a run that has ended: within a few seconds, and without changing its exit code."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Callable, Sequence

from ma_boot.errors import BootError, described
from ma_boot.processes import SignalInbox, Task
from ma_boot.reporting import keep_earlier, write_atomically
from ma_boot.reporting.page.read import page_of

PATIENCE_SECONDS = 5.0


def write_in_time(
    events: Sequence[Path],
    page: Path,
    inbox: SignalInbox,
    say: Callable[[str], None],
    patience: float = PATIENCE_SECONDS,
) -> bool:
    """Writes the page of events that this process wrote, and keeps an earlier one; True if it was written.

    It takes at most `patience` seconds. An error is reported by `say` and otherwise ignored.
    """

    def work(cancel: object) -> None:
        text = page_of(events, page, own=True)
        keep_earlier(page)
        write_atomically(page, text)

    try:
        task = Task("page", work, inbox)
        if task.wait(lambda: None, time.monotonic() + patience):
            task.result()
            return True
        say(f"no page was made: {patience:.0f} s were not enough for {page}")
    except Exception as error:  # the job's own end is what counts
        say(f"no page was made: {error if isinstance(error, BootError) else described(error)}")
    return False
