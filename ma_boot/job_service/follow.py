"""Follows a job: its states, events and logs as they come, each once, to its end.

The log of a worker is read page by page from its first line on, each line once, or only its end.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import (
    Any,
    Callable,
    Deque,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Set,
    Tuple,
)

from ma_boot.errors import BootError, ConfigError, InputMissing
from ma_boot.job_service.api import JobApi, PatientApi
from ma_boot.job_service.jobs import ENDED, STATES, stages_of, state_of

MOST = 500  # lines of a page

Page = Mapping[str, Any]
GetPage = Callable[[Optional[str], str, int], Page]  # base line, asc or desc, lines at most


class WorkerLog:
    """What has been read of a worker's log.

    A page begins at a base line, whose identity is opaque. The API's documents do not say whether that line
    is a part of the page, nor what a page in ascending order without one is. So neither is relied on: a page
    that begins with the base line loses it, and what is older than the first page is read before it. A base
    line that the service does not know any more is that of an earlier start: the log is read from its first
    line again.
    """

    def __init__(self, task: str) -> None:
        self.task = task
        self.count = 0
        self._base: Optional[str] = None

    @property
    def label(self) -> str:
        """How its lines are marked: `node 1` for `worker-1`."""
        role, _, number = self.task.rpartition("-")
        return f"node {number}" if role == "worker" else self.task

    def pages(self, get: GetPage) -> Iterator[List[str]]:
        """The lines that are new, a page at a time; a page counts as read once it was returned."""
        while True:
            try:
                page = get(self._base, "asc", MOST)
            except ConfigError:
                if self._base is None:
                    raise
                self._base = None  # the worker has restarted, and its log begins anew
                continue
            lines = _lines(page, self._base)
            if not lines:
                return
            older = _older(page, get) if self._base is None else []
            self._base = str(page["end_line"])
            for page_lines in (*older, lines):
                self.count += len(page_lines)
                yield page_lines


def _older(first: Page, get: GetPage) -> List[List[str]]:
    """The pages before this one, the oldest first."""
    pages: List[List[str]] = []
    base = str(first["start_line"])
    while True:
        page = get(base, "desc", MOST)
        lines = _lines(page, base)
        if not lines:
            return pages[::-1]
        pages.append(lines[::-1])
        base = str(page["end_line"])


def _lines(page: Page, base: Optional[str]) -> List[str]:
    """The lines of a page in its order, without the base line."""
    content, count = str(page.get("content") or ""), page.get("lines")
    lines = content.split("\n")
    if isinstance(count, int) and count < len(lines):
        lines = lines[:count]
    elif not isinstance(count, int) and not lines[-1]:
        lines.pop()
    if not page.get("end_line"):
        return []
    return lines[1:] if base is not None and str(page.get("start_line")) == base else lines


_TIME = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[-T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")
_WITHIN = 120  # characters from the beginning of a line


class Recent(NamedTuple):
    """What of a log that is there already is shown: the last `lines`, or those of the last `seconds`."""

    lines: Optional[int] = None
    seconds: Optional[float] = None


class Tail:
    """The end of one log, of which all lines are added one after the other.

    The service does not say when a line was printed, nor in which time zone a node is. So the end of the last
    minutes is reckoned from the newest time in the log; a line without a time has that of the one before.
    """

    def __init__(self, recent: Recent) -> None:
        self.has_times = False
        self._recent = recent
        self._kept: Deque[Tuple[Optional[datetime], str]] = deque(maxlen=recent.lines)
        self._newest: Optional[datetime] = None
        self._last: Optional[datetime] = None

    def add(self, lines: Iterable[str]) -> None:
        """Adds lines, and forgets those that are too old."""
        for line in lines:
            time = time_in(line) if self._recent.seconds is not None else None
            if time is not None:
                self.has_times, self._last = True, time
                self._newest = max(time, self._newest or time)
            self._kept.append((self._last, line))
            self._forget()

    def rest(self) -> List[str]:
        """The lines that are left."""
        return [line for _, line in self._kept]

    def _forget(self) -> None:
        if self._recent.seconds is None or self._newest is None:
            return
        oldest = self._newest - timedelta(seconds=self._recent.seconds)
        while self._kept and (self._kept[0][0] is None or self._kept[0][0] < oldest):
            self._kept.popleft()


def time_in(line: str) -> Optional[datetime]:
    """The time at the beginning of a line, such as `2026-11-22 14:00:00,123`; None if there is none."""
    match = _TIME.search(line, 0, _WITHIN)
    if match is None:
        return None
    *date, fraction = match.groups()
    year, month, day, hour, minute, second = map(int, date)
    try:
        return datetime(year, month, day, hour, minute, second, int((fraction or "0").ljust(6, "0")))
    except ValueError:
        return None


LAST_LOOKS = 2  # after the end without anything new, since logs arrive later than states


@dataclass(frozen=True)
class Seen:
    """What somebody who follows a job is told: `kind` is state, stage, event, log (of the worker `source`) or
    note."""

    kind: str
    lines: Tuple[str, ...]
    source: str = ""


@dataclass(frozen=True)
class Following:
    """What to follow: all workers or those of `nodes`; logs only, without states and events, if `logs_only`.

    `interval` is in seconds, between two looks. With `until_end` it goes on to the end of the job. `recent`
    is what of the logs is shown that are there at the first look, by default all.
    """

    job: str
    nodes: Tuple[int, ...] = ()
    logs_only: bool = False
    until_end: bool = True
    interval: float = 10.0
    recent: Optional[Recent] = None


class JobFollower:
    """What is known of a job that is followed; `details` is the last answer, `stage` the newest stage."""

    def __init__(self, api: PatientApi, following: Following, pause: Callable[[float], None]) -> None:
        self.details: Mapping[str, Any] = {}
        self.logs: Dict[str, WorkerLog] = {}
        self._api, self._following, self._pause = api, following, pause
        self.stage = ""
        self._state = ""
        self._stages: Set[Tuple[str, str]] = set()
        self._began: Set[str] = set()  # the tasks whose logs have been looked at
        self._events: Set[Tuple[str, str, str]] = set()
        self._event_page = 0

    def all(self) -> Iterator[Seen]:
        """Everything that is new, until the job has ended and its logs have been read to their ends."""
        quiet = 0
        while True:
            is_new = False
            self.details = self._api.call(JobApi.details, self._following.job)
            ended = state_of(self.details) in ENDED
            for seen in self._look():
                is_new = True
                yield seen
            quiet = quiet + 1 if ended and not is_new else 0
            if (ended and quiet >= LAST_LOOKS) or not self._following.until_end:
                return
            self._pause(min(self._following.interval, 2.0) if ended else self._following.interval)

    def _look(self) -> Iterator[Seen]:
        if not self._following.logs_only:
            yield from self._states()
            yield from self._new_stages()
            yield from self._new_events()
        for log in self._workers():
            if self._following.recent is not None and log.task not in self._began:
                yield from self._end_of(log, self._following.recent)
                continue
            for lines in log.pages(partial(self._page, log)):
                yield Seen("log", tuple(lines), log.label)

    def _end_of(self, log: WorkerLog, recent: Recent) -> Iterator[Seen]:
        """The end of a log at the first look."""
        tail = Tail(recent)
        for lines in log.pages(partial(self._page, log)):
            tail.add(lines)
        if not log.count:
            return  # nothing of it is there yet
        self._began.add(log.task)
        if recent.seconds is not None and not tail.has_times:
            text = "no line of its log has a time, so all are shown; --tail shows the last ones"
            yield Seen("note", (f"{log.label}: {text}",))
        yield Seen("log", tuple(tail.rest()), log.label)

    def _page(self, log: WorkerLog, base: Optional[str], order: str, most: int) -> Page:
        return self._api.call(JobApi.lines, self._following.job, log.task, base, order, most)

    def _workers(self) -> List[WorkerLog]:
        for task in (self.details.get("status") or {}).get("tasks") or []:
            self.logs.setdefault(task, WorkerLog(task))
        wanted = {f"node {node}" for node in self._following.nodes}
        labels = [log.label for log in self.logs.values()]
        if labels and not wanted <= {*labels}:
            missing = ", ".join(sorted(wanted - {*labels}))
            raise InputMissing(f"the job has no {missing}; it has {', '.join(labels)}")
        return [log for log in self.logs.values() if not wanted or log.label in wanted]

    def _states(self) -> Iterator[Seen]:
        state = state_of(self.details)
        if state != self._state:
            self._state = state
            unknown = "" if state in STATES else " (a state that this version does not know)"
            yield Seen("state", (f"{state}{unknown}",))

    def _new_stages(self) -> Iterator[Seen]:
        """Stages that have begun, each once. They only help: without an answer there are none."""
        try:
            stages = stages_of(self._api.api.stages(self._following.job))
        except BootError:
            return
        new = [stage for stage in stages if stage not in self._stages]
        self._stages.update(new)
        if stages:
            self.stage = stages[-1][1]
        if new:
            yield Seen("stage", tuple(text for _, text in new))

    def _new_events(self) -> Iterator[Seen]:
        """Events by pages, the last one again, as it may have grown; each is told once."""
        while True:
            events = self._api.call(JobApi.events, self._following.job, self._event_page)
            new: List[str] = []
            for event in events:
                identity = (str(event.get("time")), str(event.get("source")), str(event.get("message")))
                if identity not in self._events:
                    self._events.add(identity)
                    level = str(event.get("level") or "Info")
                    new.append(f"{'' if level == 'Info' else level + ': '}{event.get('message')}")
            if new:
                yield Seen("event", tuple(line for text in new for line in text.splitlines()))
            if len(events) < 100:
                return
            self._event_page += 1
