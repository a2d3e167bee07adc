"""Writes the page of a run that is over: in time, and never a reason for another exit code."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Sequence

from ma_boot.modelarts import write_atomically
from ma_boot.node.world import World
from ma_boot.processes import Task
from ma_boot.supervisor.worker_output import keep_earlier

PATIENCE_SECONDS = 5.0


def write_in_time(
    events: Sequence[Path], page: Path, world: World, patience: float = PATIENCE_SECONDS
) -> bool:
    """Writes the page of these event files, and keeps an earlier one; True when it is there.

    It takes `patience` seconds at the most. What goes wrong is said, and nothing else follows from it.
    """

    def work(cancel: object) -> None:
        from ma_boot.reporting.page.read import page_of  # here an error of any kind has no consequences

        text = page_of(events, world.environ)
        keep_earlier(page)
        write_atomically(page, text)

    task = Task("page", work, world.inbox)
    try:
        if task.wait(lambda: None, time.monotonic() + patience):
            task.result()
            return True
        world.journal.say(f"no page was made: {patience:.0f} s were not enough for {page}")
    except Exception as error:  # the job's own end is what counts
        world.journal.say(f"no page was made: {type(error).__name__}: {error}")
    return False
