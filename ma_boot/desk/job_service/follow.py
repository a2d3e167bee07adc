"""Follows a job: its states, events and logs as they come, each once, to its end.

The log of a worker is read page by page from its first line on, each line once, or only its end.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Callable, NamedTuple, Optional

from ma_boot.desk.job_service.api import AnswerOdd, JobApi, PatientApi
from ma_boot.desk.job_service.jobs import ENDED, STATES, stages_of, state_of
from ma_boot.errors import BootError, ConfigError, InputMissing

MOST = 500  # lines of a page

Page = Mapping[str, Any]
GetPage = Callable[[Optional[str], str, int], Page]  # base line, asc or desc, lines at most


class WorkerLog:
    """What has been read of a worker's log.

    The API's documents do not agree on what `asc` and `desc` are, nor do they say whether a page includes its
    base line, or what a page without one is. So nothing of that is relied on: identities of lines that are
    numbers say where a page goes, and in which order its lines are; other ones are taken as the newest
    document says. A base line that the service refuses twice may be that of an earlier start: the log is
    read from its first line again, and shown from there if that is another line than before.
    """

    def __init__(self, task: str) -> None:
        self.task = task
        self.count = 0
        self._newest: str | None = None  # the base line
        self._first: str | None = None  # None if the log was not read from its first line on
        self._since_first = 0
        self._later, self._earlier = "asc", "desc"
        self._is_certain = False  # whether a page has shown which of the two goes where

    @property
    def label(self) -> str:
        """How its lines are marked: `node 1` for `worker-1`."""
        role, _, number = self.task.rpartition("-")
        return f"node {number}" if role == "worker" else self.task

    def pages(self, get: GetPage, last: int | None = None) -> Iterator[list[str]]:
        """The lines that are new, a page at a time; a page counts as read once it was returned.

        Of a log that has not been read yet, `last` lines are enough.
        """
        if self._newest is None:
            yield from self._from_the_beginning(get, last)
        refusals = 0
        while self._newest is not None:
            try:
                page = self._beyond(get, self._newest, is_later=True)
            except ConfigError:
                refusals += 1
                if refusals > 2 or (refusals == 2 and self._first is None):
                    raise
                if refusals == 2:
                    self._newest = None
                    yield from self._from_the_beginning(get)
                continue
            if not page.lines:
                return
            yield self._read(page)

    def _from_the_beginning(self, get: GetPage, last: int | None = None) -> Iterator[list[str]]:
        """The log up to its end as it is now; without what has been read of it."""
        most, order = (MOST, self._later) if last is None else (max(1, min(last, MOST)), self._earlier)
        pages = [_Lines.of(get(None, order, most), None, order)]
        if not pages[0].lines:
            return
        while last is None or sum(len(page.lines) for page in pages) < last:
            earlier = self._beyond(get, pages[0].low, is_later=False)
            if not earlier.lines:
                break
            pages.insert(0, earlier)
        known = self._since_first if pages[0].low == self._first else 0
        self._first, self._since_first = (pages[0].low if last is None else None), 0
        for page in pages:
            skipped = min(known, len(page.lines))
            known -= skipped
            self.count -= skipped
            yield self._read(page)[skipped:]

    def _read(self, page: _Lines) -> list[str]:
        self._newest = page.high
        self.count += len(page.lines)
        self._since_first += len(page.lines)
        return page.lines

    def _beyond(self, get: GetPage, base: str, is_later: bool) -> _Lines:
        """The page of lines next to this one, empty at an end of the log.

        Until a page has shown which order goes where, the other one is asked for, too.
        """
        was_certain = self._is_certain
        for order in (self._later, self._earlier) if is_later else (self._earlier, self._later):
            page = _Lines.of(get(base, order, MOST), base, order)
            way = page.goes_later(base)
            if way is not None and not self._is_certain:
                self._is_certain = True
                if way != (order == self._later):
                    self._later, self._earlier = self._earlier, self._later
            moves = page.high != base if is_later else page.low != base
            if page.lines and moves and way in (None, is_later):
                return page
            if was_certain or (way is None and not (is_later and base.isdecimal())):
                break
        return page._replace(lines=[])


class _Lines(NamedTuple):
    """A page, the oldest line first, and the identities of its oldest and newest line."""

    lines: list[str]
    low: str
    high: str

    @classmethod
    def of(cls, page: Page, base: str | None, order: str) -> _Lines:
        """The lines of an answer without the base line."""
        content, count = page.get("content") or "", page.get("lines")
        low, high = page.get("start_line") or "", page.get("end_line") or ""
        lines = content.split("\n")
        if count is not None and count < len(lines):
            lines = lines[:count]
        elif count is None and not lines[-1]:
            lines.pop()
        if not low or not high:
            return cls([], low, high)
        numbers = low.isdecimal() and high.isdecimal()
        if int(low) > int(high) if numbers else order == "desc":
            lines, low, high = lines[::-1], high, low
        if base == low:
            lines = lines[1:]
        elif base == high:
            lines = lines[:-1]
        return cls(lines, low, high)

    def goes_later(self, base: str) -> bool | None:
        """Whether its lines are later than this one; None if that is not known."""
        if not (self.lines and base.isdecimal() and self.low.isdecimal() and self.high.isdecimal()):
            return None
        return int(self.high) > int(base)


_TIME = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[-T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")
_WITHIN = 120  # characters from the beginning of a line


class Recent(NamedTuple):
    """The part of an existing log that is shown: the last `lines`, or the lines of the last `seconds`."""

    lines: int | None = None
    seconds: float | None = None


class Tail:
    """The end of one log, of which all lines are added one after the other.

    The service does not say when a line was printed, nor in which time zone a node is. So the end of the last
    minutes is reckoned from the newest time in the log; a line without a time has that of the one before.
    """

    def __init__(self, recent: Recent) -> None:
        self.has_times = False
        self._recent = recent
        self._kept: deque[tuple[datetime | None, str]] = deque(maxlen=recent.lines)
        self._newest: datetime | None = None
        self._last: datetime | None = None

    def add(self, lines: Iterable[str]) -> None:
        """Adds lines, and forgets those that are too old."""
        for line in lines:
            time = time_in(line) if self._recent.seconds is not None else None
            if time is not None:
                self.has_times, self._last = True, time
                self._newest = max(time, self._newest or time)
            self._kept.append((self._last, line))
            self._forget()

    def rest(self) -> list[str]:
        """The lines that are left."""
        return [line for _, line in self._kept]

    def _forget(self) -> None:
        if self._recent.seconds is None or self._newest is None:
            return
        oldest = self._newest - timedelta(seconds=self._recent.seconds)
        while self._kept and (self._kept[0][0] is None or self._kept[0][0] < oldest):
            self._kept.popleft()


def time_in(line: str) -> datetime | None:
    """The time at the beginning of a line, such as `2026-11-22 14:00:00,123`; None without one."""
    match = _TIME.search(line, 0, _WITHIN)
    if match is None:
        return None
    *date, fraction = match.groups()
    year, month, day, hour, minute, second = map(int, date)
    try:
        return datetime(year, month, day, hour, minute, second, int((fraction or "0").ljust(6, "0")))
    except ValueError:
        return None


LAST_POLLS = 2  # after the end without anything new, since logs arrive later than states
_LAST_PAUSE = 2.0  # seconds between them


@dataclass(frozen=True)
class News:
    """New lines of a followed job: `kind` is state, stage, event, log (of the worker `source`) or note."""

    kind: str
    lines: tuple[str, ...]
    source: str = ""


@dataclass(frozen=True)
class Following:
    """What to follow: all workers or those of `nodes`; logs only, without states and events, if `logs_only`.

    `interval` is in seconds, between two polls. With `until_end` it goes on to the end of the job. `recent`
    limits what is shown of the logs that exist at the first poll.
    """

    job: str
    nodes: tuple[int, ...] = ()
    logs_only: bool = False
    until_end: bool = True
    interval: float = 10.0
    recent: Recent | None = None


class JobFollower:
    """What is known of a job that is followed; `details` is the last answer, `stage` the newest stage."""

    def __init__(self, api: PatientApi, following: Following, pause: Callable[[float], None]) -> None:
        self.details: Mapping[str, Any] = {}
        self.logs: dict[str, WorkerLog] = {}
        self._api, self._following, self._pause = api, following, pause
        self.stage = ""
        self._state = ""
        self._stages: set[tuple[str, str]] = set()
        self._began: set[str] = set()  # the tasks whose logs have been read
        self._unread: set[str] = set()  # what the service refuses, which is noted once
        self._events: set[tuple[str, str, str]] = set()
        self._event_page = 0

    def all(self) -> Iterator[News]:
        """Everything that is new, until the job has ended and its logs have been read to their ends."""
        quiet = 0
        while True:
            is_new = False
            self.details = self._api.call(JobApi.details, self._following.job)
            ended = state_of(self.details) in ENDED
            for news in self._news():
                is_new = True
                yield news
            quiet = quiet + 1 if ended and not is_new else 0
            if quiet >= LAST_POLLS or not self._following.until_end:
                return
            self._pause(_LAST_PAUSE if ended else self._following.interval)

    def _news(self) -> Iterator[News]:
        if not self._following.logs_only:
            yield from self._states()
            yield from self._new_stages()
            yield from self._unless_refused("events", self._new_events())
        for log in self._workers():
            yield from self._unless_refused(f"{log.label}: its log", self._new_lines(log))

    def _unless_refused(self, topic: str, news: Iterator[News]) -> Iterator[News]:
        """News of one topic: what is refused or odd is left out with a note, and the watching goes on."""
        try:
            yield from news
        except (ConfigError, AnswerOdd) as error:
            if topic not in self._unread:
                self._unread.add(topic)
                yield News("note", (f"{topic}: left out: {error}",))
        else:
            self._unread.discard(topic)

    def _new_lines(self, log: WorkerLog) -> Iterator[News]:
        if self._following.recent is not None and log.task not in self._began:
            yield from self._end_of(log, self._following.recent)
            return
        for lines in log.pages(partial(self._page, log)):
            if lines:
                yield News("log", tuple(lines), log.label)

    def _end_of(self, log: WorkerLog, recent: Recent) -> Iterator[News]:
        """The end of a log at the first poll."""
        tail = Tail(recent)
        for lines in log.pages(partial(self._page, log), recent.lines if recent.seconds is None else None):
            tail.add(lines)
        if not log.count:
            return  # nothing of it is there yet
        self._began.add(log.task)
        if recent.seconds is not None and not tail.has_times:
            text = "no line of its log has a time, so all are shown; --tail shows the last ones"
            yield News("note", (f"{log.label}: {text}",))
        yield News("log", tuple(tail.rest()), log.label)

    def _page(self, log: WorkerLog, base: str | None, order: str, most: int) -> Page:
        return self._api.call(JobApi.lines, self._following.job, log.task, base, order, most)

    def _workers(self) -> list[WorkerLog]:
        for task in self.details["status"]["tasks"]:
            self.logs.setdefault(task, WorkerLog(task))
        labels = [log.label for log in self.logs.values()]
        wanted = {f"node {node}": node for node in self._following.nodes}
        missing = [label for label in wanted if label not in labels]
        size = self.details["spec"]["resource"]["node_count"] or 0
        may_come = self._following.until_end and state_of(self.details) not in ENDED
        if labels and missing and not (may_come and all(wanted[label] < size for label in missing)):
            raise InputMissing(f"the job has no {', '.join(missing)}; it has {', '.join(labels)}")
        return [log for log in self.logs.values() if not wanted or log.label in wanted]

    def _states(self) -> Iterator[News]:
        state = state_of(self.details)
        if state != self._state:
            self._state = state
            unknown = "" if state in STATES else " (a state that this version does not know)"
            yield News("state", (f"{state}{unknown}",))

    def _new_stages(self) -> Iterator[News]:
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
            yield News("stage", tuple(text for _, text in new))

    def _new_events(self) -> Iterator[News]:
        """Events by pages, the last one again, as it may have grown; each is news once."""
        while True:
            events = self._api.call(JobApi.events, self._following.job, self._event_page)
            new: list[str] = []
            for event in events:
                identity = (event["time"] or "", event["source"] or "", event["message"] or "")
                if identity not in self._events:
                    self._events.add(identity)
                    level = event["level"] or "Info"
                    new.append(f"{'' if level == 'Info' else level + ': '}{identity[-1]}")
            if new:
                yield News("event", tuple(line for text in new for line in text.splitlines()))
            if len(events) < 100:
                return
            self._event_page += 1
