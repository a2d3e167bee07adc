"""The timeline: its axis, a lane for each node with its phases, and a bar for each process. Pure.

Positions are from 0 to `UNITS`; heights are in pixels; kinds are CSS classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ma_boot.report.page.fill import NOTHING, Html, fill, joined, notice
from ma_boot.report.page.language import INCIDENTS, PHASES, ROLES, Text, code_shown, phase_name, ranges
from ma_boot.report.result import CAUSE
from ma_boot.report.timeline.job_timeline import BootRun, NodeTimeline, PhaseSpan, ProcessSpan, Timeline
from ma_boot.wording import duration

UNITS = 1000.0  # the width of every drawing, which the browser stretches
MOST_TICKS = 8
NEAR_THE_END = 88.0  # percent of the axis
_STEPS = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
    3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800,
)  # fmt: skip
NARROWEST = 1.0  # of UNITS: the shortest spans stay visible
SMALLEST_PHASE = 2.0  # of UNITS: shorter phases are left out of a dense drawing
NAME_HEIGHT = 13  # pixels
MOST_NODES_WITH_NAMES = 16  # beyond that, phases are strips without names
MOST_LEGEND_PHASES = 12
_PHASE_CLASSES = {name: f"p{number}" for number, name in enumerate(PHASES)}
_ACROSS = {"stop": "stop", "restart": "restart", "start": "restart"}  # incidents, and their CSS classes
_DOTS = {"hang": "hang", "fault": "fault", "kill": "kill", "unkillable": "hang"}


def axis(seconds: float) -> Html:
    """The moments of the time axis of a job of this duration."""
    _, moments = ticks(seconds)
    return fill("axis", moments=joined(_moment(place(at, seconds) / 10, label) for at, label in moments))


def tick(seconds: float) -> str:
    """The distance of the axis' grid lines, in 1/1000 percent."""
    return figure(ticks(seconds)[0] / seconds * 100000)


def _moment(left: float, label: str) -> Html:
    """A label is to the right of its line; near the end to the left, so that it stays inside."""
    if left >= NEAR_THE_END:
        return fill("moment", side="right", percent=figure(100 - left), label=label)
    return fill("moment", side="left", percent=figure(left), label=label)


def place(at: float, seconds: float) -> float:
    """The position of a moment, from 0 to `UNITS`."""
    return min(UNITS, max(0.0, at / seconds * UNITS))


def figure(value: float) -> str:
    """A coordinate, as short as possible."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def ticks(seconds: float) -> tuple[float, list[tuple[float, str]]]:
    """The seconds between two grid lines, and the time and label of each line."""
    step = next((step for step in _STEPS if seconds / step <= MOST_TICKS), seconds / MOST_TICKS)
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


class Chart(NamedTuple):
    """What all lanes have in common: the height of a row, and what is left out.

    `dense` leaves the names of the processes out, `many` those of the phases, which are then strips.
    """

    row: int
    dense: bool
    many: bool

    @classmethod
    def of(cls, timeline: Timeline) -> Chart:
        """Large for a few processes, small for hundreds."""
        rows = max(1, sum(len(_rows(node)) for node in timeline.nodes))
        row = 16 if rows <= 32 else 13 if rows <= 64 else 6 if rows <= 160 else 4
        return cls(row, rows > 64, len(timeline.nodes) > MOST_NODES_WITH_NAMES)

    @property
    def bar(self) -> int:
        """The height of a process's bar in its row."""
        return max(3, self.row * 2 // 3)

    @property
    def phase(self) -> int:
        """The height of a row of phases."""
        return 5 if self.many else 20


def timeline_part(timeline: Timeline, chart: Chart, lanes: Sequence[Html]) -> Html:
    """These lanes of nodes below an axis; the others do not fit on the page."""
    if not timeline.nodes:
        return NOTHING
    left = len(timeline.nodes) - len(lanes)
    more = [notice(f"{left} more nodes do not fit on this page.", f"篇幅所限，另有 {left} 个节点未显示。")]
    return fill(
        "timeline",
        legend=joined((fill("legend-entry", kind=kind, name=name) for kind, name in _legend(timeline)), "\n"),
        kind=(" many" if chart.many else "") + (" dense" if chart.dense else ""),
        bar=chart.bar,
        tick=tick(timeline.seconds),
        axes=joined([axis(timeline.seconds)] * (2 if chart.many else 1)),
        lanes=joined([*lanes, *(more if left else [])], "\n"),
    )


def _legend(timeline: Timeline) -> Iterator[tuple[str, Text]]:
    runs = [run for _, run in timeline.all_runs()]
    phases = [phase for run in runs for phase in run.phases]
    roles = {process.role for run in runs for process in run.processes}
    kinds = {incident.kind for incident in timeline.all_incidents()}
    if any(len(node.runs) > 1 for node in timeline.nodes):
        kinds.add("start")
    for name in list(dict.fromkeys(phase.name for phase in phases))[:MOST_LEGEND_PHASES]:
        yield _phase_class(name), phase_name(name)
    if any(phase.outcome == "failed" for phase in phases):
        yield "failed", Text("failed phase", "失败的阶段")
    yield from ((role, name) for role, name in ROLES.items() if role in roles)
    if roles:
        yield "quiet", Text("before its first output", "首次输出之前")
    yield from ((shown, INCIDENTS[kind]) for kind, shown in {**_ACROSS, **_DOTS}.items() if kind in kinds)


def lane(node: NodeTimeline, seconds: float, chart: Chart) -> Html:
    """The lane of a node in a job of this duration.

    A page may have hundreds of them: attributes are without quotes where they are words of ours.
    """
    rows = _rows(node)
    stacked = _stacked(phase for run in node.runs for phase in run.phases)
    phases_height = chart.phase * (1 + max((level for level, _ in stacked), default=0))
    top = phases_height + 1 if chart.many else 0
    height = top + len(rows) * chart.row
    middles = {label: figure(top + row * chart.row + chart.row / 2) for label, row in rows.items()}
    processes = [process for run in node.runs for process in run.processes]
    causes = [process.label for process in processes if process.role == CAUSE]
    hit = causes[-1] if causes else ""  # those before it are of earlier attempts
    names = NOTHING
    if not chart.dense:
        names = joined(_row_name(label, label == hit, chart.row) for label in rows)
    elif height >= 2 * NAME_HEIGHT:
        of_ranks = ranges([process.rank for process in processes if process.rank is not None])
        names = _row_name(hit or of_ranks, bool(hit), 0)
    phases = drawing = NOTHING
    if not chart.many:
        boxes = joined(_boxes(stacked, node, seconds, chart))
        phases = fill("phases", height=phases_height, boxes=boxes)
    if height:
        bars = (_bar(p, run, middles[p.label], seconds) for run in node.runs for p in run.processes)
        drawing = fill(
            "drawing",
            height=height,
            strips=joined(_strips(stacked, node, seconds, chart) if chart.many else ()),
            bars=joined(bars),
            incidents=joined(_incidents(node, middles, seconds, height)),
        )
    attributes = _attributes(chart.dense and bool(hit), 0 if chart.dense else phases_height)
    return fill("lane", attributes=attributes, node=node.number, rows=names, phases=phases, drawing=drawing)


def _row_name(text: str, hit: bool, height: int) -> Html:
    """The name of a process, or the ranks of a node, beside the drawing."""
    return fill("lane-row", attributes=_attributes(hit, height), text=text)


def _attributes(hit: bool, height: int) -> Html:
    """Of a name: whether it is that of the cause, and its height, 0 for one that depends on its text."""
    mark = Html(" class=hit" if hit else "")
    return joined([mark, fill("lane-height", height=height) if height else NOTHING])


def _rows(node: NodeTimeline) -> dict[str, int]:
    """The row of each process, by rank."""
    ranks = {process.label: process.rank for run in node.runs for process in run.processes}
    ordered = sorted(ranks, key=lambda label: (ranks[label] is not None, ranks[label] or 0))
    return {label: row for row, label in enumerate(ordered)}


def _stacked(phases: Iterable[PhaseSpan]) -> list[tuple[int, PhaseSpan]]:
    """Each phase with its level: phases that overlap are above each other."""
    ends: list[float] = []
    levels = []
    for phase in sorted(phases, key=lambda phase: phase.start):
        level = next((level for level, end in enumerate(ends) if end <= phase.start + 0.002), len(ends))
        level = min(level, 3)
        ends[level : level + 1] = [float("inf") if phase.end is None else phase.end]
        levels.append((level, phase))
    return levels


def _end_of(phase: PhaseSpan, node: NodeTimeline) -> float:
    """The end of a phase; where it is unknown, that of the node's events."""
    if phase.end is not None:
        return phase.end
    return next((run.end for run in node.runs if run.end >= phase.start), phase.start)


def _phase_class(name: str) -> str:
    return _PHASE_CLASSES.get(name, "p9")


def _boxes(
    stacked: list[tuple[int, PhaseSpan]], node: NodeTimeline, seconds: float, chart: Chart
) -> Iterator[Html]:
    for level, phase in stacked:
        end = _end_of(phase, node)
        left, right = place(phase.start, seconds), place(end, seconds)
        outcome = {"failed": " failed", "stopped": " cut", "": " cut"}.get(phase.outcome, "")
        took = duration(end - phase.start)
        detail = f": {phase.detail}" if phase.detail else ""
        yield fill(
            "phase",
            kind=_phase_class(phase.name) + outcome,
            title=f"{phase.name} {phase.outcome or 'without an end'}, {took}{detail}",
            left=figure(left / 10),
            width=figure(max(NARROWEST, right - left) / 10),
            top=level * chart.phase,
            name=phase_name(phase.name),
            duration=took,
        )


def _strips(
    stacked: list[tuple[int, PhaseSpan]], node: NodeTimeline, seconds: float, chart: Chart
) -> Iterator[Html]:
    """One stroke for all phases of a colour; failed phases are drawn however short they are."""
    paths: dict[str, list[str]] = {}
    for level, phase in stacked:
        left, right = place(phase.start, seconds), place(_end_of(phase, node), seconds)
        failed = phase.outcome == "failed"
        if right - left < SMALLEST_PHASE and not failed:
            continue
        y = figure(level * chart.phase + chart.phase / 2)
        path = f"M{figure(left)} {y}h{figure(max(NARROWEST, right - left))}"
        paths.setdefault("failed" if failed else _phase_class(phase.name), []).append(path)
    return (fill("stroke", kind=kind, path="".join(parts)) for kind, parts in paths.items())


def _bar(process: ProcessSpan, run: BootRun, y: str, seconds: float) -> Html:
    end = run.end if process.end is None else process.end
    left, right = place(process.start, seconds), place(end, seconds)
    first = process.first_output
    spoke = right if first is None else place(min(first, end), seconds)
    right = max(right, left + NARROWEST)
    strokes: list[Html] = []
    if spoke - left > 0.05:
        strokes.append(fill("stroke", kind="quiet", path=f"M{figure(left)} {y}H{figure(spoke)}"))
    if spoke >= right - 0.05:  # it printed nothing: only its end is coloured
        spoke = right - NARROWEST
    strokes.append(fill("stroke", kind=process.role, path=f"M{figure(spoke)} {y}H{figure(right)}"))
    if process.role == CAUSE:
        strokes.append(fill("stroke", kind="dot", path=f"M{figure(right)} {y}h0"))
    code = code_shown(process.code, process.signal)
    title = f"{process.label}: {code}, {process.start:.1f}–{end:.1f} s"
    return fill("bar", title=title, strokes=joined(strokes))


def _incidents(node: NodeTimeline, middles: dict[str, str], seconds: float, height: int) -> Iterator[Html]:
    """Lines across the lane, and dots on the processes concerned."""
    for number, run in enumerate(node.runs):
        if number:
            yield _incident(_ACROSS["start"], f"M{figure(place(run.start, seconds))} 0V{height}")
        for incident in run.incidents:
            x = figure(place(incident.at, seconds))
            if incident.kind in _ACROSS:
                yield _incident(_ACROSS[incident.kind], f"M{x} 0V{height}")
            elif incident.kind in _DOTS:
                for label in incident.label.split(", "):
                    if label in middles:
                        yield _incident(f"dot {_DOTS[incident.kind]}", f"M{x} {middles[label]}h0")


def _incident(kind: str, path: str) -> Html:
    return fill("incident-stroke", kind=kind, path=path)
