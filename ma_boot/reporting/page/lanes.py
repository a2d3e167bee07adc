"""The timeline: its axis, a lane for each node with its phases, and a bar for each process. Pure."""

from __future__ import annotations

from typing import Dict, Iterable, Iterator, List, NamedTuple, Tuple

from ma_boot.reporting.page.language import INCIDENTS, PHASES, ROLES, Text, code_shown, phase_name, ranges
from ma_boot.reporting.timeline import CAUSE, BootRun, NodeTimeline, PhaseSpan, ProcessSpan, Timeline
from ma_boot.wording import duration

UNITS = 1000.0  # the width of every drawing, which the browser stretches
MOST_TICKS = 8
NEAR_THE_END = 88.0  # percent of the axis
_STEPS = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
    3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800,
)  # fmt: skip


class Moment(NamedTuple):
    """A moment of the axis: its label, and its distance in percent from the `left` or the `right` end."""

    side: str
    percent: str
    label: str


class Scale(NamedTuple):
    """The axis of a job: the distance of its grid lines in 1/1000 percent, and its moments."""

    tick: str
    moments: Tuple[Moment, ...]


def scale(seconds: float) -> Scale:
    """The axis of a job of this duration."""
    step, labels = ticks(seconds)
    moments = (_moment(place(at, seconds) / UNITS * 100, label) for at, label in labels)
    return Scale(figure(step / seconds * 100000), tuple(moments))


def _moment(left: float, label: str) -> Moment:
    """The label is to the right of its line; near the end to the left, so that it stays inside."""
    near_the_end = left >= NEAR_THE_END
    return Moment("right", figure(100 - left), label) if near_the_end else Moment("left", figure(left), label)


def place(at: float, seconds: float) -> float:
    """The position of a moment, from 0 to `UNITS`."""
    return min(UNITS, max(0.0, at / seconds * UNITS))


def figure(value: float) -> str:
    """A coordinate, as short as possible."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def ticks(seconds: float) -> Tuple[float, List[Tuple[float, str]]]:
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


NARROWEST = 1.0  # of UNITS: the shortest spans stay visible
SMALLEST_PHASE = 2.0  # of UNITS: shorter phases are left out of a dense drawing
NAME_HEIGHT = 13  # pixels
MOST_NODES_WITH_NAMES = 16  # beyond that, phases are strips without names
MOST_LEGEND_PHASES = 12
_PHASE_CLASSES = {name: f"p{number}" for number, name in enumerate(PHASES)}
_ACROSS = {"stop": "stop", "restart": "restart", "start": "restart"}  # incidents, and their CSS classes
_DOTS = {"hang": "hang", "fault": "fault", "kill": "kill", "unkillable": "hang"}


class LegendEntry(NamedTuple):
    """An entry of the legend; `kind` is a CSS class, as in all values of this module."""

    kind: str
    name: Text


class Stroke(NamedTuple):
    """A path of the drawing, in the syntax of SVG."""

    kind: str
    path: str


class Bar(NamedTuple):
    """A process."""

    title: str
    strokes: Tuple[Stroke, ...]


class PhaseBox(NamedTuple):
    """A phase with its name; `left` and `width` are in percent, `top` is in pixels."""

    kind: str
    title: str
    left: str
    width: str
    top: int
    name: Text
    duration: str


class RowName(NamedTuple):
    """The name of a process or the ranks of a node, beside the drawing; 0 for a height that depends on it."""

    text: str
    hit: bool
    height: int


class Lane(NamedTuple):
    """A node: its names, its phases as boxes or `strips`, and its processes; a height of 0 is for nothing."""

    node: int
    hit: bool
    name_height: int
    rows: Tuple[RowName, ...]
    phases_height: int
    phases: Tuple[PhaseBox, ...]
    height: int
    strips: Tuple[Stroke, ...]
    bars: Tuple[Bar, ...]
    incidents: Tuple[Stroke, ...]


class Chart(NamedTuple):
    """What all lanes have in common: the legend, and how large things are in pixels.

    `dense` leaves the names of the processes out, `many` those of the phases.
    """

    legend: Tuple[LegendEntry, ...]
    row: int
    dense: bool
    many: bool

    @classmethod
    def of(cls, timeline: Timeline) -> Chart:
        """Large for a few processes, small for hundreds."""
        rows = max(1, sum(len(_rows(node)) for node in timeline.nodes))
        row = 16 if rows <= 32 else 13 if rows <= 64 else 6 if rows <= 160 else 4
        return cls(_legend(timeline), row, rows > 64, len(timeline.nodes) > MOST_NODES_WITH_NAMES)

    @property
    def bar(self) -> int:
        """The height of a process's bar in its row."""
        return max(3, self.row * 2 // 3)

    @property
    def phase(self) -> int:
        """The height of a row of phases."""
        return 5 if self.many else 20


def _legend(timeline: Timeline) -> Tuple[LegendEntry, ...]:
    runs = [run for _, run in timeline.all_runs()]
    phases = [phase for run in runs for phase in run.phases]
    roles = {process.role for run in runs for process in run.processes}
    kinds = {incident.kind for incident in timeline.all_incidents()}
    if any(len(node.runs) > 1 for node in timeline.nodes):
        kinds.add("start")
    names = list(dict.fromkeys(phase.name for phase in phases))[:MOST_LEGEND_PHASES]
    found = [LegendEntry(_phase_class(name), phase_name(name)) for name in names]
    if any(phase.outcome == "failed" for phase in phases):
        found.append(LegendEntry("failed", Text("failed phase", "失败的阶段")))
    found += [LegendEntry(role, name) for role, name in ROLES.items() if role in roles]
    if roles:
        found.append(LegendEntry("quiet", Text("before its first output", "首次输出之前")))
    shown = {**_ACROSS, **_DOTS}
    return (*found, *(LegendEntry(shown[kind], INCIDENTS[kind]) for kind in shown if kind in kinds))


def lane(node: NodeTimeline, seconds: float, chart: Chart) -> Lane:
    """The lane of a node; `seconds` is the duration of the job."""
    rows = _rows(node)
    stacked = _stacked(phase for run in node.runs for phase in run.phases)
    phases_height = chart.phase * (1 + max((level for level, _ in stacked), default=0))
    top = phases_height + 1 if chart.many else 0
    height = top + len(rows) * chart.row
    middles = {label: figure(top + row * chart.row + chart.row / 2) for label, row in rows.items()}
    processes = [process for run in node.runs for process in run.processes]
    causes = [process.label for process in processes if process.role == CAUSE]
    hit = causes[-1] if causes else None  # those before it are of earlier attempts
    if not chart.dense:
        names = [RowName(label, label == hit, chart.row) for label in rows]
    elif height >= 2 * NAME_HEIGHT:
        text = hit or ranges([process.rank for process in processes if process.rank is not None])
        names = [RowName(text, hit is not None, 0)]
    else:
        names = []
    return Lane(
        node=node.number,
        hit=chart.dense and hit is not None,
        name_height=0 if chart.dense else phases_height,
        rows=tuple(names),
        phases_height=0 if chart.many else phases_height,
        phases=() if chart.many else tuple(_boxes(stacked, node, seconds, chart)),
        height=height,
        strips=tuple(_strips(stacked, node, seconds, chart)) if chart.many else (),
        bars=tuple(_bar(p, run, middles[p.label], seconds) for run in node.runs for p in run.processes),
        incidents=tuple(_incidents(node, middles, seconds, height)),
    )


def _rows(node: NodeTimeline) -> Dict[str, int]:
    """The row of each process, by rank."""
    ranks = {process.label: process.rank for run in node.runs for process in run.processes}
    ordered = sorted(ranks, key=lambda label: (ranks[label] is not None, ranks[label] or 0))
    return {label: row for row, label in enumerate(ordered)}


def _stacked(phases: Iterable[PhaseSpan]) -> List[Tuple[int, PhaseSpan]]:
    """Each phase with its level: phases that overlap are above each other."""
    ends: List[float] = []
    found = []
    for phase in sorted(phases, key=lambda phase: phase.start):
        level = next((level for level, end in enumerate(ends) if end <= phase.start + 0.002), len(ends))
        level = min(level, 3)
        ends[level : level + 1] = [float("inf") if phase.end is None else phase.end]
        found.append((level, phase))
    return found


def _end_of(phase: PhaseSpan, node: NodeTimeline) -> float:
    """The end of a phase; where it is unknown, that of the node's events."""
    if phase.end is not None:
        return phase.end
    return next((run.end for run in node.runs if run.end >= phase.start), phase.start)


def _phase_class(name: str) -> str:
    return _PHASE_CLASSES.get(name, "p9")


def _boxes(
    stacked: List[Tuple[int, PhaseSpan]], node: NodeTimeline, seconds: float, chart: Chart
) -> Iterator[PhaseBox]:
    for level, phase in stacked:
        end = _end_of(phase, node)
        left, right = place(phase.start, seconds), place(end, seconds)
        outcome = {"failed": " failed", "stopped": " cut", "": " cut"}.get(phase.outcome, "")
        took = duration(end - phase.start)
        yield PhaseBox(
            kind=_phase_class(phase.name) + outcome,
            title=f"{phase.name} {phase.outcome or 'without an end'}, {took}"
            + (f": {phase.detail}" if phase.detail else ""),
            left=figure(left / 10),
            width=figure(max(NARROWEST, right - left) / 10),
            top=level * chart.phase,
            name=phase_name(phase.name),
            duration=took,
        )


def _strips(
    stacked: List[Tuple[int, PhaseSpan]], node: NodeTimeline, seconds: float, chart: Chart
) -> Iterator[Stroke]:
    """One stroke for all phases of a colour; failed phases are drawn however short they are."""
    paths: Dict[str, List[str]] = {}
    for level, phase in stacked:
        left, right = place(phase.start, seconds), place(_end_of(phase, node), seconds)
        failed = phase.outcome == "failed"
        if right - left < SMALLEST_PHASE and not failed:
            continue
        y = figure(level * chart.phase + chart.phase / 2)
        path = f"M{figure(left)} {y}h{figure(max(NARROWEST, right - left))}"
        paths.setdefault("failed" if failed else _phase_class(phase.name), []).append(path)
    return (Stroke(kind, "".join(parts)) for kind, parts in paths.items())


def _bar(process: ProcessSpan, run: BootRun, y: str, seconds: float) -> Bar:
    end = run.end if process.end is None else process.end
    left, right = place(process.start, seconds), place(end, seconds)
    first = process.first_output
    spoke = right if first is None else place(min(first, end), seconds)
    right = max(right, left + NARROWEST)
    strokes = [Stroke("quiet", f"M{figure(left)} {y}H{figure(spoke)}")] if spoke - left > 0.05 else []
    if spoke >= right - 0.05:  # it printed nothing: only its end is coloured
        spoke = right - NARROWEST
    strokes.append(Stroke(process.role, f"M{figure(spoke)} {y}H{figure(right)}"))
    if process.role == CAUSE:
        strokes.append(Stroke("dot", f"M{figure(right)} {y}h0"))
    code = code_shown(process.code, process.signal)
    return Bar(f"{process.label}: {code}, {process.start:.1f}–{end:.1f} s", tuple(strokes))


def _incidents(node: NodeTimeline, middles: Dict[str, str], seconds: float, height: int) -> Iterator[Stroke]:
    """Lines across the lane, and dots on the processes concerned."""
    for number, run in enumerate(node.runs):
        if number:
            yield _across("start", run.begin, seconds, height)
        for incident in run.incidents:
            if incident.kind in _ACROSS:
                yield _across(incident.kind, incident.at, seconds, height)
            elif incident.kind in _DOTS:
                x = figure(place(incident.at, seconds))
                for label in incident.label.split(", ")[:8]:
                    if label in middles:
                        yield Stroke(f"dot {_DOTS[incident.kind]}", f"M{x} {middles[label]}h0")


def _across(kind: str, at: float, seconds: float, height: int) -> Stroke:
    return Stroke(_ACROSS[kind], f"M{figure(place(at, seconds))} 0V{height}")
