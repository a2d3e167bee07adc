"""Reads events and the ends of logs, makes the page of a job from them, and writes it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Callable, NamedTuple
from urllib.parse import quote

from ma_boot.errors import BootError, ConfigError, described, listed
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.task import Task
from ma_boot.redact import without_secrets
from ma_boot.report.doubt import REMEDY
from ma_boot.report.explain import without_escapes
from ma_boot.report.files import keep_earlier, read_end, write_atomically
from ma_boot.report.job_ledger import JobLedger, job_directory
from ma_boot.report.page.compose import page_text
from ma_boot.report.page.head import cause_in_own_words, headline, useful_time
from ma_boot.report.page.language import catalogue
from ma_boot.report.page.tables import logs_to_read
from ma_boot.report.result import CAUSE
from ma_boot.report.timeline.all_starts import UNKNOWN_TIMES, PlatformTimes
from ma_boot.report.timeline.events import printable, read_events
from ma_boot.report.timeline.job_timeline import DOUBTFUL, Timeline
from ma_boot.report.timeline.merge import NO_LEDGER, job_names, timeline_of

MOST_EVENT_BYTES = 64 << 20  # from the end of each file
CAUSE_TAIL = 64_000  # bytes of the log of the process that failed first
ALL_TAILS = 1_000_000  # of all others together
LARGEST_TAIL = 16_000  # of each of them
CUT = "…\n"  # before an end that is not the whole log: its lines are numbered from the last one, which is -1
LOGS = (".txt", ".log")
NO_LEDGERS: Mapping[str, JobLedger] = {}


class JobPage(NamedTuple):
    """The page of a job; `end` and `time` are its end and its useful node time in one line each, `restarts`
    has a line for each restart, `starts` a table of all starts. `tail` is the end of the log of the process
    that failed first.
    """

    text: str
    end: str
    time: str
    restarts: tuple[str, ...]
    starts: tuple[str, ...]
    timeline: Timeline
    tail: str


def page_of(
    events: Sequence[Path],
    page: Path | None = None,
    own: bool = False,
    *,
    ledgers: Mapping[str, JobLedger] = NO_LEDGERS,
    platform: PlatformTimes = UNKNOWN_TIMES,
) -> JobPage:
    """Makes the page of the job that wrote these event files, without secrets.

    `page` is its future path: links to whole logs are relative to it. `own` are events of this process: the
    logs that they name are read wherever they are. `ledgers` are those of jobs, by the names of their
    directories, `platform` has the times of the starts by the platform.

    Raises:
        ConfigError: A file cannot be read, there are no events, or they are of several jobs.
    """
    timeline = _timeline(events, ledgers, platform)
    places = places_of_logs(timeline, events, own)
    links = {file: relative_url(place, page) for file, place in places.items()} if page else {}
    ends_of_logs = tails(timeline, places)
    failed = timeline.outcome.process
    tail = ends_of_logs.get(failed.log_file, "") if failed else ""
    why = cause_in_own_words(timeline, tail).en
    remedy = "" if timeline.outcome.doubt is None else REMEDY
    end = " ".join(filter(None, [headline(timeline).en, f"{why}." if remedy else why, remedy]))
    reasons = (printable(incident.text) for incident in timeline.restarts)
    restarts = tuple(f"restart {number}: {reason}" for number, reason in enumerate(reasons, 1))
    text, time_spent = page_text(timeline, ends_of_logs, links), useful_time(timeline).en
    return JobPage(
        text,
        printable(end),
        time_spent,
        restarts=restarts,
        starts=_starts(timeline),
        timeline=timeline,
        tail=tail,
    )


def _starts(timeline: Timeline) -> tuple[str, ...]:
    """Returns the starts of a job that has several, as lines."""
    if not timeline.starts.are_several:
        return ()
    from ma_boot.report.page.starts import starts_lines  # most jobs have one

    return tuple(map(printable, starts_lines(timeline.starts)))


def _hidden(text: str) -> str:
    """Masks the secrets of a string of an event, unless it is a template of ma_boot's own messages."""
    return text if text in catalogue() else without_secrets(text)


def event_files(places: Iterable[Path]) -> list[Path]:
    """Returns these files, and the event files below the directories among them, each once.

    Raises:
        ConfigError: A directory has no event files.
    """
    files: list[Path] = []
    for place in places:
        below = sorted(place.rglob("*-events.jsonl")) if place.is_dir() else [place]
        if not below:
            raise ConfigError(
                f"no events below {place}: expected files *-events.jsonl, as in a log directory"
            )
        files += below
    return list(dict.fromkeys(files))


def _timeline(events: Sequence[Path], ledgers: Mapping[str, JobLedger], platform: PlatformTimes) -> Timeline:
    try:
        files = [read_events(read_end(path, MOST_EVENT_BYTES), _hidden) for path in events]
    except OSError as error:
        raise ConfigError(f"cannot read the events {error.filename}: {error.strerror}") from error
    if not any(file.events for file in files):
        raise ConfigError(f"no events in {', '.join(map(str, events))}: expected *-events.jsonl of a job")
    names = job_names(files)
    if len(names) > 1:
        raise ConfigError(listed("expected the events of one job, found several:", names))
    directory = job_directory(names[0]) if names else ""
    return timeline_of(files, ledgers.get(directory, NO_LEDGER), platform)


def places_of_logs(timeline: Timeline, events: Sequence[Path], own: bool = False) -> dict[str, Path]:
    """Returns the paths of the logs on the page, by log file as in the events: there, or beside the events.

    Logs that do not exist are left out. Events of another machine may name any file: unless the events are
    our `own`, only logs (`.txt`, `.log`) below a directory of the events are read, after links are resolved.
    """
    beside = list(dict.fromkeys(path.parent for path in events))
    allowed = tuple(os.path.join(os.path.realpath(parent), "") for parent in beside)
    places: dict[str, Path] = {}
    for process in logs_to_read(timeline):
        name = Path(process.log_file).name
        for place in (Path(process.log_file), *(parent / name for parent in beside)):
            with suppress(OSError, ValueError):  # not on this machine, or not a path at all
                real = os.path.realpath(place)
                if place.is_file() and (own or (real.startswith(allowed) and real.endswith(LOGS))):
                    places[process.log_file] = place
                    break
    return places


def relative_url(place: Path, page: Path) -> str:
    """Returns the relative URL from a page to a file; both may be moved together."""
    path = os.path.relpath(os.path.abspath(place), os.path.dirname(os.path.abspath(page)))
    return f"./{quote(os.fsencode(path))}"


def tails(timeline: Timeline, places: Mapping[str, Path]) -> dict[str, str]:
    """Returns the ends of the logs on the page, by log file as in the events; without secrets."""
    wanted = [process for process in logs_to_read(timeline) if process.log_file in places]
    each = min(LARGEST_TAIL, ALL_TAILS // max(1, len(wanted)))
    ends: dict[str, str] = {}
    for process in wanted:
        size = CAUSE_TAIL if process.role in (CAUSE, DOUBTFUL) else each
        place = places[process.log_file]
        with suppress(OSError):
            is_cut = place.stat().st_size > size
            ends[process.log_file] = (CUT if is_cut else "") + _plain(read_end(place, size))
    return ends


def _plain(text: str) -> str:
    """Removes colours and secrets, and all but the last state of a progress bar."""
    lines = without_secrets(without_escapes(text)).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2][:2000] for line in lines).rstrip("\n")


PATIENCE_SECONDS = 5.0


def write_in_time(
    events: Sequence[Path],
    page: Path,
    inbox: SignalInbox,
    warn: Callable[[str], None],
    patience: float = PATIENCE_SECONDS,
) -> bool:
    """Writes the page of events that this process wrote, and keeps an earlier one; True if it was written.

    It takes at most `patience` seconds. An error is reported by `warn` and otherwise ignored.
    """

    def work(cancel: object) -> None:
        text = page_of(events, page, own=True).text
        keep_earlier(page)
        write_atomically(page, text)

    try:
        task = Task("page", work, inbox)
        if task.wait(lambda: None, time.monotonic() + patience):
            task.result()
            return True
        warn(f"no page was made: {patience:.0f} s were not enough for {page}")
    except Exception as error:  # the job's own end is what counts
        warn(f"no page was made: {error if isinstance(error, BootError) else described(error)}")
    return False
