"""The events of a job's nodes as one `Timeline`, whatever is missing or torn. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, List, Optional, Sequence, Tuple

from ma_boot.reporting.timeline.events import Event, EventFile, clocked, whole, words
from ma_boot.reporting.timeline.job_timeline import (
    CAUSE,
    FOLLOWED,
    STOPPED,
    UNKNOWN,
    WELL,
    Life,
    Node,
    Start,
    Timeline,
    Verdict,
)
from ma_boot.reporting.timeline.node_start import as_start, mark_of

FAR_SECONDS = 1800.0  # a start that ended so long before the next one is another story
MOST_STARTS = 20
Timed = Tuple[Tuple[float, Event], ...]


def timeline(files: Sequence[EventFile]) -> Timeline:
    """The picture's contents: nodes in order of their numbers, each with its starts in order of time."""
    by_node: Dict[int, List[Start]] = {}
    of_job: List[Tuple[float, Event]] = []
    for file in files:
        nodes = {whole(event, "node", 100_000) for event in file.events}
        for node in nodes:
            own = tuple(event for event in file.events if whole(event, "node", 100_000) == node)
            if node is None:
                of_job += clocked(own)
            else:
                by_node.setdefault(node, []).extend(as_start(node, part) for part in _starts(own))
    drawn = [_recent(number, starts) for number, starts in sorted(by_node.items())]
    began, seconds = _extent(drawn, of_job)
    everything = [event for file in files for event in file.events]
    counts = [whole(event, "nodes", 100_000) for event in everything if event["kind"] == "job"]
    marks = [mark_of(at, None, event) for at, event in sorted(of_job, key=lambda timed: timed[0])]
    moved = tuple(_moved(_judged(node), -began) for node in drawn)
    verdict = _verdict(moved, of_job)
    return Timeline(
        job=next(iter(job_names(files)), ""),
        began=began,
        seconds=seconds,
        expected_nodes=next(filter(None, counts), None),
        nodes=tuple(_with_cause(node, verdict) for node in moved),
        marks=tuple(replace(mark, at=mark.at - began) for mark in marks if mark is not None)[-200:],
        verdict=verdict,
        unreadable=sum(file.unreadable for file in files),
    )


def job_names(files: Sequence[EventFile]) -> Tuple[str, ...]:
    """The jobs that the events are of, each once."""
    named = [words(event, "name", 200) for file in files for event in file.events if event["kind"] == "job"]
    return tuple(dict.fromkeys(filter(None, named)))


def _starts(events: Tuple[Event, ...]) -> List[Timed]:
    """The events of one file, cut where the boot command was started again in the same container."""
    parts: List[List[Event]] = [[]]
    for event in events:
        if event["kind"] == "phase-start" and event.get("phase") == "job" and parts[-1]:
            parts.append([])
        parts[-1].append(event)
    return [clocked(tuple(part)) for part in parts if part]


def _recent(number: int, starts: List[Start]) -> Node:
    """The last start, and those before it that it followed soon."""
    ordered = sorted(starts, key=lambda start: start.begin)
    first = len(ordered) - 1
    while first and ordered[first].begin - ordered[first - 1].end <= FAR_SECONDS:
        first -= 1
    first = max(first, len(ordered) - MOST_STARTS)
    return Node(number, tuple(ordered[first:]), first)


def _extent(nodes: Sequence[Node], of_job: Sequence[Tuple[float, Event]]) -> Tuple[float, float]:
    """When it all began, and how many seconds it took; never 0, for the sake of a scale."""
    ends = [(start.begin, start.end) for node in nodes for start in node.starts]
    if not ends:
        ends = [(at, at) for at, _ in of_job]
    if not ends:
        return 0.0, 0.001
    began = min(begin for begin, _ in ends)
    return began, max(0.001, max(end for _, end in ends) - began)


def _moved(node: Node, by: float) -> Node:
    """The node with all its times moved."""

    def at(time: Optional[float]) -> Optional[float]:
        return None if time is None else max(0.0, time + by)

    starts = [
        replace(
            start,
            begin=start.begin + by,
            end=start.end + by,
            phases=tuple(replace(p, start=max(0.0, p.start + by), end=at(p.end)) for p in start.phases),
            lives=tuple(
                replace(life, start=max(0.0, life.start + by), first=at(life.first), end=at(life.end))
                for life in start.lives
            ),
            marks=tuple(replace(mark, at=max(0.0, mark.at + by)) for mark in start.marks),
            transfers=tuple(
                replace(
                    t,
                    start=max(0.0, t.start + by),
                    end=at(t.end),
                    samples=tuple((max(0.0, s + by), b) for s, b in t.samples),
                )
                for t in start.transfers
            ),
        )
        for start in node.starts
    ]
    return replace(node, starts=tuple(starts))


def _judged(node: Node) -> Node:
    """The node with the part that each process's end was in it.

    An attempt that another one came after has its own cause; that of the job is found later.
    """
    last = len(node.starts) - 1
    starts = (
        replace(start, lives=_with_parts(start.lives, number < last))
        for number, start in enumerate(node.starts)
    )
    return replace(node, starts=tuple(starts))


def _with_parts(lives: Sequence[Life], over: bool) -> Tuple[Life, ...]:
    """The processes of a start with their parts; `over`: another start came after it."""
    attempts: Dict[str, int] = {}
    numbered = []
    for life in lives:
        attempts[life.label] = attempts.get(life.label, 0) + 1
        numbered.append((attempts[life.label], life))
    last = max(attempts.values(), default=0)
    causes: Dict[int, Life] = {}
    for attempt, life in numbered:
        earlier = over or attempt < last
        first = causes.get(attempt, life)
        if earlier and life.failed and (life.end or 0.0) <= (first.end or 0.0):
            causes[attempt] = life
    return tuple(
        replace(life, part=CAUSE if causes.get(attempt) is life else _part(life))
        for attempt, life in numbered
    )


def _part(life: Life) -> str:
    if life.code is None:
        return UNKNOWN
    if life.code == 0:
        return WELL
    return STOPPED if life.stopped else FOLLOWED


def _verdict(nodes: Sequence[Node], of_job: Sequence[Tuple[float, Event]]) -> Verdict:
    """How the job ended: by the rehearsal's own word, else by the node that failed first."""
    lasts = [(node.number, node.starts[-1]) for node in nodes if node.starts]
    bad = [(number, start) for number, start in lasts if start.exit_code]
    found = Verdict(None, "", "")
    if bad:
        number, start = min(bad, key=lambda one: (one[1].by == "signal", _failed_at(one[1])))
        life = _first_failure(start) if start.by in ("training", "signal") else None
        found = Verdict(start.exit_code, start.by, start.cause, number, life, start.signal)
    elif lasts and all(start.exit_code == 0 for _, start in lasts):
        found = Verdict(0, "", "")
    said = next((event for _, event in reversed(of_job) if event["kind"] == "job-end"), None)
    code = None if said is None else whole(said, "exit_code", 255)
    if said is None or code is None or code == found.exit_code:
        return found
    by, cause = words(said, "by", 20), words(said, "cause", 3000)
    label = words(said, "label", 60)
    own = as_start(None, tuple(of_job)).lives if by == "node" else ()
    life = next((replace(life, part=CAUSE) for life in own if life.label == label), None)
    return Verdict(code, by, cause, life=life, signal=whole(said, "signal", 64), label=label)


def _first_failure(start: Start) -> Optional[Life]:
    """The process that failed first in the last attempt of this start."""
    last = {life.label: life for life in start.lives}
    failed = [life for life in last.values() if life.failed]
    named = [life for life in failed if life.label == start.label]
    return min(named or failed, key=lambda life: life.end or 0.0, default=None)


def _failed_at(start: Start) -> float:
    life = _first_failure(start)
    return start.end if life is None or life.end is None else life.end


def _with_cause(node: Node, verdict: Verdict) -> Node:
    """The node with its processes, one of them perhaps the cause."""
    if verdict.node != node.number or verdict.life is None:
        return node
    start = node.starts[-1]
    lives = tuple(replace(life, part=CAUSE) if life == verdict.life else life for life in start.lives)
    return replace(node, starts=(*node.starts[:-1], replace(start, lives=lives)))
