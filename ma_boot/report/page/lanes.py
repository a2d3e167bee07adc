"""The timeline as values for the template: a lane per node with its phases, and a bar per process. Pure.

Positions are from 0 to `UNITS`; heights are in pixels; kinds are CSS classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ma_boot.errors import ExitCode
from ma_boot.report.page.language import INCIDENTS, PHASES, ROLES, Text, code_shown, phase_name
from ma_boot.report.result import CAUSE, FOLLOWED, STOPPED, WELL
from ma_boot.report.timeline.job_timeline import (
    DOUBTFUL,
    UNKNOWN,
    BootRun,
    NodeTimeline,
    PhaseSpan,
    ProcessSpan,
    Timeline,
)
from ma_boot.wording import duration

# Width of every drawing; the browser stretches it to the width of the window.
UNITS = 1000.0
MOST_TICKS = 8
# Percent of the axis; labels beyond this are left of their grid line, so that they stay inside the drawing.
NEAR_THE_END = 88.0
# Seconds between two grid lines.
_STEPS = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
    3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800,
)  # fmt: skip
# In units; the shortest phases and processes stay visible.
NARROWEST = 1.0
# Pixels; page.css has the same heights for `.nodes .names i` and `.phase`.
PROCESS_HEIGHT = 16
PHASE_HEIGHT = 20
# Phases that overlap are drawn in at most this many rows.
MOST_LEVELS = 4
# A lane of eight ranks has about 5 kB. Nodes with a failure are never the ones that are left out.
MOST_LANES = 256
# Of a lane; a node that restarts all the time has no end of processes.
MOST_BARS = 400
MOST_PHASES = 200
# Characters of a phase's detail in its tooltip.
LONGEST_DETAIL = 200
MOST_LEGEND_PHASES = 12
# Seconds; events of phases that follow each other may differ by this much.
_OVERLAP = 0.002
_PHASE_CLASSES = {name: f"p{number}" for number, name in enumerate(PHASES)}
# CSS classes of incidents: drawn as a line across the lane, or as a dot on each process concerned.
_ACROSS = {"stop": "stop", "restart": "restart", "start": "restart"}
_DOTS = {"hang": "hang", "fault": "fault", "kill": "kill", "unkillable": "hang"}


class Moment(NamedTuple):
    """A label of the time axis, `percent` from its `side` (a CSS property, `left` or `right`)."""

    side: str
    percent: str
    label: str


class Axis(NamedTuple):
    """The time axis; `tick` is the distance of its grid lines in 1/1000 percent."""

    tick: str
    moments: tuple[Moment, ...]


class Stroke(NamedTuple):
    """An SVG path with its CSS class."""

    kind: str
    path: str


class PhaseBox(NamedTuple):
    """A phase: `left` and `width` are in percent, `top` in pixels.

    `failed_at` is where its failure begins, in percent of its width; empty if it has not failed.
    """

    kind: str
    title: str
    left: str
    width: str
    top: int
    name: Text
    duration: str
    failed_at: str = ""


class Bar(NamedTuple):
    """A process: its strokes from left to right, and its tooltip."""

    title: str
    strokes: tuple[Stroke, ...]


class Lane(NamedTuple):
    """A node with its `role`; `names` are its processes from top to bottom, each with its last role."""

    node: int
    role: str
    names: tuple[tuple[str, str], ...]
    phases: tuple[PhaseBox, ...]
    phases_height: int
    height: int
    bars: tuple[Bar, ...]
    marks: tuple[Stroke, ...]


def axis_of(seconds: float) -> Axis:
    """Returns the time axis of a job of this duration."""
    step, moments = ticks(seconds)
    return Axis(
        tick=figure(step / seconds * 100_000),
        moments=tuple(_moment(place(at, seconds) / 10, label) for at, label in moments),
    )


def _moment(left: float, label: str) -> Moment:
    if left >= NEAR_THE_END:
        return Moment("right", figure(100 - left), label)
    return Moment("left", figure(left), label)


def place(at: float, seconds: float) -> float:
    """Returns the position of a moment, from 0 to `UNITS`."""
    return min(UNITS, max(0.0, at / seconds * UNITS))


def figure(value: float) -> str:
    """Formats a coordinate with at most one decimal, as short as possible."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def ticks(seconds: float) -> tuple[float, list[tuple[float, str]]]:
    """Returns the seconds between two grid lines, and time and label of each line."""
    step = next((step for step in _STEPS if seconds / step <= MOST_TICKS), seconds / MOST_TICKS)
    # The addend makes up for divisions such as 0.3 / 0.1, which is a little less than 3.
    count = int(seconds / step + 1e-9)
    return step, [(number * step, _label(number * step, step)) for number in range(count + 1)]


def _label(at: float, step: float) -> str:
    if at == 0:
        return "0"
    if step < 60 and at < 120:
        return f"{at:.3f}".rstrip("0").rstrip(".") + " s"
    minutes, rest = divmod(round(at), 60)
    if step < 3600 and at < 7200:
        return f"{minutes}:{rest:02}" if step < 60 else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02} h"


def lanes_of(timeline: Timeline) -> list[Lane]:
    """Returns the lanes by node; of more than `MOST_LANES` nodes, those with a failure are preferred."""
    nodes = timeline.nodes
    failed_first = sorted(range(len(nodes)), key=lambda index: not _has_failure(nodes[index]))
    lost = timeline.outcome.label if timeline.outcome.by == "node" else ""
    return [
        lane(nodes[index], timeline.seconds, lost=lost == f"node {nodes[index].number}")
        for index in sorted(failed_first[:MOST_LANES])
    ]


def _has_failure(node: NodeTimeline) -> bool:
    return any(process.role in (CAUSE, FOLLOWED, DOUBTFUL) for run in node.runs for process in run.processes)


def legend_of(timeline: Timeline) -> Iterator[tuple[str, Text]]:
    """Yields the CSS class and the meaning of each colour and mark that the timeline has."""
    runs = [run for _, run in timeline.all_runs()]
    phases = [phase for run in runs for phase in run.phases]
    roles = {process.role for run in runs for process in run.processes}
    kinds = {incident.kind for incident in timeline.all_incidents()}
    if any(len(node.runs) > 1 for node in timeline.nodes):
        kinds.add("start")
    for name in list(dict.fromkeys(phase.name for phase in phases))[:MOST_LEGEND_PHASES]:
        yield _phase_class(name), phase_name(name)
    if any(phase.outcome == "failed" for phase in phases) or timeline.outcome.by == "node":
        yield "failed", Text("failed phase", "失败的阶段")
    yield from ((role, name) for role, name in ROLES.items() if role in roles)
    if roles:
        yield "quiet", Text("before its first output", "首次输出之前")
    marks = {**_ACROSS, **_DOTS}
    yield from ((css_class, INCIDENTS[kind]) for kind, css_class in marks.items() if kind in kinds)


def lane(node: NodeTimeline, seconds: float, lost: bool = False) -> Lane:
    """Returns the lane of a node in a job of this duration; a `lost` node has ended the job."""
    rows = _rows(node)
    stacked = _stacked(phase for run in node.runs for phase in run.phases)
    height = len(rows) * PROCESS_HEIGHT
    middles = {label: figure((row + 0.5) * PROCESS_HEIGHT) for label, row in rows.items()}
    pairs = [(process, run) for run in node.runs for process in run.processes if process.label in rows]
    roles = {process.label: process.role for process, _ in pairs}
    return Lane(
        node=node.number,
        role=CAUSE if lost else _role_of(node),
        names=tuple((label, roles[label]) for label in rows),
        phases=tuple(_boxes(stacked[-MOST_PHASES:], node, seconds=seconds, lost=lost)),
        phases_height=PHASE_HEIGHT * (1 + max((level for level, _ in stacked), default=0)),
        height=height,
        bars=tuple(
            _bar(process, run, middles[process.label], seconds) for process, run in pairs[-MOST_BARS:]
        ),
        marks=tuple(_marks(node, middles, seconds, height)),
    )


def _role_of(node: NodeTimeline) -> str:
    """Returns the role of a node in the end of the job, as those of processes."""
    run = node.last
    if not run.exit_code:
        return UNKNOWN if run.exit_code is None else DOUBTFUL if run.doubt else WELL
    failed = {process.role for process in run.latest} & {CAUSE, FOLLOWED}
    if failed:
        return CAUSE if CAUSE in failed else FOLLOWED
    is_cause_elsewhere = run.job_cause is not None and run.job_cause.node != node.number
    return STOPPED if run.by == "signal" or is_cause_elsewhere else CAUSE


def _failures(run: BootRun) -> list[float]:
    """Returns when failures began: ends of processes, and hangs if they have ended the run."""
    ends = [process.end for process in run.processes if process.failed and process.end is not None]
    hangs = [incident.at for incident in run.incidents if incident.kind == "hang"]
    return sorted([*ends, *(hangs if run.exit_code == ExitCode.HUNG else ())])


def _hung_at(process: ProcessSpan, run: BootRun) -> float | None:
    """Returns when a process that is the cause was found to hang; None if it has failed by itself."""
    if not process.stopped:
        return None
    hangs = (i.at for i in run.incidents if i.kind == "hang" and process.label in i.label.split(", "))
    return next((at for at in hangs if at >= process.start), None)


def _rows(node: NodeTimeline) -> dict[str, int]:
    """Returns the row of each process: those without a rank first, then by rank."""
    ranks = {process.label: process.rank for run in node.runs for process in run.processes[-MOST_BARS:]}
    ordered = sorted(ranks, key=lambda label: (ranks[label] is not None, ranks[label] or 0))
    return {label: row for row, label in enumerate(ordered[:MOST_BARS])}


def _stacked(phases: Iterable[PhaseSpan]) -> list[tuple[int, PhaseSpan]]:
    """Returns the phases by their start, each with its level: phases that overlap have different ones."""
    ends: list[float] = []
    levels = []
    for phase in sorted(phases, key=lambda phase: phase.start):
        free = (level for level, end in enumerate(ends) if end <= phase.start + _OVERLAP)
        level = min(next(free, len(ends)), MOST_LEVELS - 1)
        ends[level : level + 1] = [float("inf") if phase.end is None else phase.end]
        levels.append((level, phase))
    return levels


def _end_of(phase: PhaseSpan, node: NodeTimeline) -> float:
    """Returns the end of a phase; where it is unknown, that of the run's events."""
    if phase.end is not None:
        return phase.end
    return next((run.end for run in node.runs if run.end >= phase.start), phase.start)


def _phase_class(name: str) -> str:
    return _PHASE_CLASSES.get(name, "p9")


def _boxes(
    stacked: list[tuple[int, PhaseSpan]], node: NodeTimeline, *, seconds: float, lost: bool
) -> Iterator[PhaseBox]:
    for level, phase in stacked:
        end = _end_of(phase, node)
        left, right = place(phase.start, seconds), place(end, seconds)
        has_failed = phase.outcome == "failed" or (lost and not phase.outcome)
        outcome = " failed" if has_failed else {"stopped": " cut", "": " cut"}.get(phase.outcome, "")
        detail = f": {phase.detail[:LONGEST_DETAIL]}" if phase.detail else ""
        failed_at = ""
        if has_failed:
            failures = [at for run in node.runs for at in _failures(run) if phase.start <= at <= end]
            begins = place(min(failures, default=end), seconds)
            failed_at = figure((begins - left) / max(right - left, NARROWEST) * 100)
        yield PhaseBox(
            kind=_phase_class(phase.name) + outcome,
            title=f"{phase.name} {phase.outcome or 'without an end'}, {duration(end - phase.start)}{detail}",
            left=figure(left / 10),
            width=figure(max(NARROWEST, right - left) / 10),
            top=level * PHASE_HEIGHT,
            name=phase_name(phase.name),
            duration=duration(end - phase.start),
            failed_at=failed_at,
        )


def _bar(process: ProcessSpan, run: BootRun, y: str, seconds: float) -> Bar:
    """Returns the bar of a process: pale until its first output, then in the colour of its role.

    One that failed has the colour of the phase `run` until its failure began.
    """
    end = run.end if process.end is None else process.end
    first = process.first_output
    left, right = place(process.start, seconds), place(end, seconds)
    spoke = right if first is None else place(min(first, end), seconds)
    right = max(right, left + NARROWEST)
    strokes = []
    # Less than half of the shortest coordinate would be drawn as a dot.
    if spoke - left > 0.05:
        strokes.append(Stroke("quiet", f"M{figure(left)} {y}H{figure(spoke)}"))
    # A process that printed nothing has its role's colour at its end only.
    if spoke >= right - 0.05:
        spoke = right - NARROWEST
    if process.role in (CAUSE, FOLLOWED):
        hung = _hung_at(process, run)
        failed = right - NARROWEST if hung is None else min(place(hung, seconds), right - NARROWEST)
        if failed - spoke > 0.05:
            strokes.append(Stroke("ran", f"M{figure(spoke)} {y}H{figure(failed)}"))
            spoke = failed
    strokes.append(Stroke(process.role, f"M{figure(spoke)} {y}H{figure(right)}"))
    if process.role in (CAUSE, FOLLOWED):
        strokes.append(Stroke("dot" if process.role == CAUSE else "dot followed", f"M{figure(right)} {y}h0"))
    code = code_shown(process.code, process.signal)
    if process.role == DOUBTFUL:
        code += ", but a process failed"
    return Bar(f"{process.label}: {code}, {process.start:.1f}–{end:.1f} s", tuple(strokes))


def _marks(node: NodeTimeline, middles: dict[str, str], seconds: float, height: int) -> Iterator[Stroke]:
    """Yields a line across the lane for each restart and stop, and a dot for each process of an incident."""
    for number, run in enumerate(node.runs):
        if number:
            yield Stroke(_ACROSS["start"], f"M{figure(place(run.start, seconds))} 0V{height}")
        for incident in run.incidents:
            x = figure(place(incident.at, seconds))
            if incident.kind in _ACROSS:
                yield Stroke(_ACROSS[incident.kind], f"M{x} 0V{height}")
            elif incident.kind in _DOTS:
                labels = [label for label in incident.label.split(", ") if label in middles]
                yield from (
                    Stroke(f"dot {_DOTS[incident.kind]}", f"M{x} {middles[each]}h0") for each in labels
                )
