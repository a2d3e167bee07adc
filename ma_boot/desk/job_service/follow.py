"""Follows a job to its end: states, stages, events and logs, each once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable

from ma_boot.desk.job_service.api import AnswerOdd, JobApi, PatientApi
from ma_boot.desk.job_service.jobs import ENDED, STATES, stages_of, state_of
from ma_boot.desk.job_service.log_tail import LogTail, Recent
from ma_boot.desk.job_service.worker_log import WorkerLog
from ma_boot.errors import BootError, ConfigError, InputMissing

# Logs arrive later than states: after the end of the job, polling continues until so many polls are empty.
LAST_POLLS = 2
# Seconds between the polls after the end of the job.
_LAST_PAUSE = 2.0
# Maximum number of events per page of the API.
_EVENTS_PER_PAGE = 100


@dataclass(frozen=True)
class News:
    """New lines of a followed job: `kind` is state, stage, event, log (of the worker `source`) or note."""

    kind: str
    lines: tuple[str, ...]
    source: str = ""


@dataclass(frozen=True)
class Following:
    """The parts of a job to follow: all workers or those of `nodes`; no states and events if `logs_only`.

    `interval` is the time between two polls in seconds. With `until_end`, polling continues to the end of the
    job. `recent` limits the logs that exist at the first poll.
    """

    job: str
    nodes: tuple[int, ...] = ()
    logs_only: bool = False
    until_end: bool = True
    interval: float = 10.0
    recent: Recent | None = None


class JobFollower:
    """Polls a job; `details` is the last answer, `stage` the newest stage, `logs` are by task."""

    def __init__(self, api: PatientApi, following: Following, pause: Callable[[float], None]) -> None:
        self.details: Mapping[str, Any] = {}
        self.logs: dict[str, WorkerLog] = {}
        self.stage = ""
        self._api, self._following, self._pause = api, following, pause
        self._state = ""
        self._stages: set[tuple[str, str]] = set()
        self._tasks_begun: set[str] = set()  # whose logs were read once
        self._refused_topics: set[str] = set()  # topics that the service refuses, each noted once
        self._events = EventFeed()

    def all(self) -> Iterator[News]:
        """Yields news until the job has ended and its logs have been read to their ends."""
        quiet_polls = 0
        while True:
            is_new = False
            self.details = self._api.call(JobApi.details, self._following.job)
            has_ended = state_of(self.details) in ENDED
            for news in self._poll():
                is_new = True
                yield news
            quiet_polls = quiet_polls + 1 if has_ended and not is_new else 0
            if quiet_polls >= LAST_POLLS or not self._following.until_end:
                return
            self._pause(_LAST_PAUSE if has_ended else self._following.interval)

    def _poll(self) -> Iterator[News]:
        if not self._following.logs_only:
            yield from self._new_state()
            yield from self._new_stages()
            yield from self._unless_refused("events", self._new_events())
        for log in self._workers():
            yield from self._unless_refused(f"{log.label}: its log", self._new_lines(log))

    def _unless_refused(self, topic: str, news: Iterator[News]) -> Iterator[News]:
        """Yields news of one topic; a refused request or a malformed answer is noted once."""
        try:
            yield from news
        except (ConfigError, AnswerOdd) as error:
            if topic not in self._refused_topics:
                self._refused_topics.add(topic)
                yield News("note", (f"{topic}: left out: {error}",))
        else:
            self._refused_topics.discard(topic)

    def _new_lines(self, log: WorkerLog) -> Iterator[News]:
        if self._following.recent is not None and log.task not in self._tasks_begun:
            yield from self._recent_lines(log, self._following.recent)
            return
        for lines in log.pages(partial(self._page, log)):
            if lines:
                yield News("log", tuple(lines), log.label)

    def _recent_lines(self, log: WorkerLog, recent: Recent) -> Iterator[News]:
        """Yields the end of a log that exists at the first poll."""
        tail = LogTail(recent)
        for lines in log.pages(partial(self._page, log), recent.lines if recent.seconds is None else None):
            tail.add(lines)
        if not log.count:
            return  # the worker has printed nothing yet
        self._tasks_begun.add(log.task)
        if recent.seconds is not None and not tail.has_times:
            text = "no line of its log has a time, so all are shown; --tail shows the last ones"
            yield News("note", (f"{log.label}: {text}",))
        yield News("log", tuple(tail.lines()), log.label)

    def _page(self, log: WorkerLog, base: str | None, order: str, most: int) -> Mapping[str, Any]:
        lines = partial(
            JobApi.lines, job=self._following.job, task=log.task, base=base, order=order, most=most
        )
        return self._api.call(lines)

    def _workers(self) -> list[WorkerLog]:
        """Returns the logs to read. Raises `InputMissing` for a node that the job does not have."""
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

    def _new_state(self) -> Iterator[News]:
        state = state_of(self.details)
        if state != self._state:
            self._state = state
            unknown = "" if state in STATES else " (a state that this version does not know)"
            yield News("state", (f"{state}{unknown}",))

    def _new_stages(self) -> Iterator[News]:
        """Yields stages that have begun, each once. Best effort: without an answer there are none."""
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
        while True:
            events = self._api.call(JobApi.events, self._following.job, self._events.page)
            lines = self._events.new_lines(events)
            if lines:
                yield News("event", tuple(lines))
            if len(events) < _EVENTS_PER_PAGE:
                return
            self._events.page += 1


class EventFeed:
    """The events that were shown; `page` is read again at each poll, since it may have grown."""

    def __init__(self) -> None:
        self.page = 0
        self._shown: set[tuple[str, str, str]] = set()

    def new_lines(self, events: list[dict[str, Any]]) -> list[str]:
        """Returns the lines of events that were not shown before."""
        lines: list[str] = []
        for event in events:
            identity = (event["time"] or "", event["source"] or "", event["message"] or "")
            if identity not in self._shown:
                self._shown.add(identity)
                level = event["level"] or "Info"
                lines += f"{'' if level == 'Info' else level + ': '}{identity[-1]}".splitlines()
        return lines
