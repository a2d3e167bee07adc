"""Reads events and the ends of logs, and makes the page of a job from them."""

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

MOST_EVENT_BYTES = 64 << 20  # from the end of each file
CAUSE_TAIL = 16_000  # bytes of the log of the process that failed first
ALL_TAILS = 160_000  # of all others together
LARGEST_TAIL = 6_000  # of each of them
_ESCAPES = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])"


def page_of(events: Sequence[Path], environ: Mapping[str, str]) -> str:
    """The page of the job that wrote these event files; the secrets of `environ` are masked.

    Raises:
        ConfigError: A file cannot be read, there are no events, or they are of several jobs.
    """
    hide = partial(without_secrets, values=secret_values(environ))
    try:
        files = [_read(path, hide) for path in events]
    except OSError as error:
        raise ConfigError(f"cannot read the events {error.filename}: {error.strerror}") from error
    if not any(file.events for file in files):
        raise ConfigError(f"no events in {', '.join(map(str, events))}: expected *-events.jsonl of a job")
    names = job_names(files)
    if len(names) > 1:
        raise ConfigError(listed("expected the events of one job, found several:", names))
    timeline = timeline_of(files)
    return page_text(timeline, tails(timeline, events, hide))


def _read(path: Path, hide: Callable[[str], str]) -> EventFile:
    return read_events(_end_of(path, MOST_EVENT_BYTES), hide)


def tails(timeline: Timeline, events: Sequence[Path], hide: Callable[[str], str]) -> Dict[str, str]:
    """The ends of the logs that the page shows, by log file as in the events.

    A log is read from that path, or from beside the events, which may have been copied with it.
    """
    wanted = logs_to_read(timeline)
    each = min(LARGEST_TAIL, ALL_TAILS // max(1, len(wanted)))
    beside = list(dict.fromkeys(path.parent for path in events))
    found: Dict[str, str] = {}
    for process in wanted:
        size = CAUSE_TAIL if process.role == CAUSE else each
        for place in (Path(process.log_file), *(parent / Path(process.log_file).name for parent in beside)):
            try:
                text = _end_of(place, size)
            except (OSError, ValueError):  # not on this machine, or not a path at all
                continue
            found[process.log_file] = hide(_plain(text))
            break
    return found


def _end_of(path: Path, most: int) -> str:
    """The last whole lines of a file, at most this number of bytes."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - most))
        data = file.read(most)
    if size > most:
        data = data.partition(b"\n")[2] or data
    return data.decode("utf-8", "replace")


def _plain(text: str) -> str:
    """The text without colours, and of a progress bar only its last state."""
    lines = re.sub(_ESCAPES, "", text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2][:2000] for line in lines).rstrip("\n")
