"""Reads the events and the ends of the logs, and writes the page; never a reason for another exit code."""

from __future__ import annotations

import os
import re
import time
from functools import partial
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Sequence

from ma_boot.errors import ConfigError
from ma_boot.output import keep_earlier
from ma_boot.page.compose import page_text
from ma_boot.page.events import EventFile, read_events
from ma_boot.page.sections import wanted_logs
from ma_boot.page.timeline import timeline
from ma_boot.page.values import CAUSE, Timeline
from ma_boot.rank_file import write_atomically
from ma_boot.secrets import secret_values, without_secrets
from ma_boot.signals import SignalInbox
from ma_boot.task import Task

PATIENCE_SECONDS = 5.0
MOST_EVENT_BYTES = 64 << 20  # of one file: its end
LARGEST_TAIL = 16_000  # bytes of the log of the cause; of all the others together `ALL_TAILS`
ALL_TAILS = 160_000
SMALLEST_TAIL, LONGEST_TAIL = 400, 6_000
_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def write_in_time(
    events: Sequence[Path],
    page: Path,
    environ: Mapping[str, str],
    inbox: SignalInbox,
    say: Callable[[str], None],
) -> bool:
    """Writes the page of these events, and keeps an earlier one; True when it is there.

    It takes 5 s at the most. What goes wrong is said, and nothing else follows from it.
    """

    def work(cancel: object) -> None:
        text = page_of(events, environ)
        keep_earlier(page)
        write_atomically(page, text)

    task = Task("page", work, inbox)
    if not task.wait(lambda: None, time.monotonic() + PATIENCE_SECONDS):
        say(f"no page was made: {PATIENCE_SECONDS:.0f} s were not enough for {page}")
        return False
    try:
        task.result()
    except Exception as error:  # whatever it is: the job's own end is what counts
        say(f"no page was made: {type(error).__name__}: {error}")
        return False
    return True


def page_of(events: Sequence[Path], environ: Mapping[str, str]) -> str:
    """The page of these files; raises `OSError` for one that cannot be read."""
    hide = partial(without_secrets, values=secret_values(environ))
    line = timeline([_read(path, hide) for path in events])
    return page_text(line, tails(line, events, hide))


def read_files(events: Sequence[Path], environ: Mapping[str, str]) -> List[EventFile]:
    """The event files; raises `ConfigError` for one that cannot be read."""
    hide = partial(without_secrets, values=secret_values(environ))
    try:
        return [_read(path, hide) for path in events]
    except OSError as error:
        raise ConfigError(f"cannot read the events {error.filename}: {error.strerror}") from error


def _read(path: Path, hide: Callable[[str], str]) -> EventFile:
    return read_events(_end_of(path, MOST_EVENT_BYTES), hide)


def tails(line: Timeline, events: Sequence[Path], hide: Callable[[str], str]) -> Dict[str, str]:
    """The ends of the logs that are of interest, by the names that the events give them.

    A log is looked for where its name says, else beside the events: they may have been copied together.
    """
    wanted = wanted_logs(line)
    each = min(LONGEST_TAIL, max(SMALLEST_TAIL, ALL_TAILS // max(1, len(wanted))))
    beside = list(dict.fromkeys(path.parent for path in events))
    found: Dict[str, str] = {}
    room = ALL_TAILS
    for _, life in wanted:
        if room <= 0:
            break
        size = LARGEST_TAIL if life.part == CAUSE else each
        for place in (Path(life.log_file), *(parent / Path(life.log_file).name for parent in beside)):
            try:
                text = _end_of(place, size)
            except (OSError, ValueError):  # not here, or no name of a file at all
                continue
            found[life.log_file] = hide(_as_read(text))
            room -= 0 if life.part == CAUSE else size
            break
    return found


def _end_of(path: Path, most: int) -> str:
    """The last whole lines of a file, at most so many bytes of it."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - most))
        data = file.read(most)
    if size > most:
        data = data.partition(b"\n")[2] or data
    return data.decode("utf-8", "replace")


def _as_read(text: str) -> str:
    """The text as a terminal leaves it: no colours, of a progress bar its last state."""
    lines = _TERMINAL.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2][:2000] for line in lines).rstrip("\n")
