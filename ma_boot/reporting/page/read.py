"""Reads the events and the ends of the logs, and makes the page of them."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import Callable, Dict, Mapping, Sequence

from ma_boot.errors import ConfigError, listed
from ma_boot.redact import secret_values, without_secrets
from ma_boot.reporting.page.compose import page_text
from ma_boot.reporting.page.sections import logs_to_read
from ma_boot.reporting.timeline import CAUSE, EventFile, Timeline, job_names, read_events, timeline_of

MOST_EVENT_BYTES = 64 << 20  # of one file: its end
LARGEST_TAIL = 16_000  # bytes of the log of the cause; of all the others together `ALL_TAILS`
ALL_TAILS = 160_000
SMALLEST_TAIL, LONGEST_TAIL = 400, 6_000
_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def page_of(events: Sequence[Path], environ: Mapping[str, str]) -> str:
    """The page of one job's event files; raises `ConfigError` where they are not that, or cannot be read."""
    hide = partial(without_secrets, values=secret_values(environ))
    try:
        files = [_read(path, hide) for path in events]
    except OSError as error:
        raise ConfigError(f"cannot read the events {error.filename}: {error.strerror}") from error
    if not any(file.events for file in files):
        raise ConfigError(f"no events in {', '.join(map(str, events))}: expected *-events.jsonl of a job")
    names = job_names(files)
    if len(names) > 1:
        raise ConfigError(listed("a page is of one job, the events are of several:", names))
    line = timeline_of(files)
    return page_text(line, tails(line, events, hide))


def _read(path: Path, hide: Callable[[str], str]) -> EventFile:
    return read_events(_end_of(path, MOST_EVENT_BYTES), hide)


def tails(line: Timeline, events: Sequence[Path], hide: Callable[[str], str]) -> Dict[str, str]:
    """The ends of the logs that are of interest, by the names that the events give them.

    A log is looked for where its name says, else beside the events: they may have been copied together.
    """
    wanted = logs_to_read(line)
    each = min(LONGEST_TAIL, max(SMALLEST_TAIL, ALL_TAILS // max(1, len(wanted))))
    beside = list(dict.fromkeys(path.parent for path in events))
    found: Dict[str, str] = {}
    room = ALL_TAILS
    for life in wanted:
        if room <= 0:
            break
        size = LARGEST_TAIL if life.role == CAUSE else each
        for place in (Path(life.log_file), *(parent / Path(life.log_file).name for parent in beside)):
            try:
                text = _end_of(place, size)
            except (OSError, ValueError):  # not here, or no name of a file at all
                continue
            found[life.log_file] = hide(_as_read(text))
            room -= 0 if life.role == CAUSE else size
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
