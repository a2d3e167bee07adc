"""Follows a job: its states, events and logs as they come, each once, to its end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Set, Tuple

from ma_boot.errors import BootError, InputMissing
from ma_boot.job_service.api import JobApi, PatientApi
from ma_boot.job_service.jobs import ENDED, STATES, stages_of, state_of
from ma_boot.job_service.worker_log import Page, Recent, Tail, WorkerLog

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
            found = False
            self.details = self._api.call(JobApi.details, self._following.job)
            ended = state_of(self.details) in ENDED
            for seen in self._look():
                found = True
                yield seen
            quiet = quiet + 1 if ended and not found else 0
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
            found = stages_of(self._api.api.stages(self._following.job))
        except BootError:
            return
        new = [stage for stage in found if stage not in self._stages]
        self._stages.update(new)
        if found:
            self.stage = found[-1][1]
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
