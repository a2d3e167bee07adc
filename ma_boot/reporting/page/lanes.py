"""The time line: of each node its phases, of each process a bar, on one scale. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Iterable, List, Sequence, Tuple

from ma_boot.reporting import duration
from ma_boot.reporting.page.markup import both, escaped, ranges
from ma_boot.reporting.page.scale import UNITS, figure, place, ticks
from ma_boot.reporting.page.words import MARKS, PARTS, PHASES, Text, code_shown, phase_name
from ma_boot.reporting.timeline import (
    CAUSE,
    FOLLOWED,
    BootRun,
    NodeTimeline,
    PhaseSpan,
    ProcessSpan,
    Timeline,
)

NARROWEST = 1.0  # of UNITS: what is over in a moment is to be seen too
SMALLEST_PHASE = 2.0  # of UNITS: phases that are shorter are left out of a dense drawing
NAME_HEIGHT = 13  # pixels
NEAR_THE_END = 88.0  # percent of the axis
MOST_NODES_WITH_NAMES = 16  # beyond, phases are strips without their names
_PHASE_NUMBERS = {name: number for number, name in enumerate(PHASES)}
_LANE_MARKS = {"stop": "ms", "restart": "mr", "start": "mr"}
_DOT_MARKS = {"hang": "mh", "fault": "mf", "kill": "mk", "unkillable": "mh"}


@dataclass(frozen=True)
class Density:
    """How large things are, in pixels, for this many nodes and processes."""

    row: int
    named_rows: bool
    named_phases: bool

    @classmethod
    def of(cls, line: Timeline) -> Density:
        """Large for a few processes, small for hundreds."""
        rows = max(1, sum(len(_labels(node)) for node in line.nodes))
        row = 16 if rows <= 32 else 13 if rows <= 64 else 6 if rows <= 160 else 4
        return cls(row, rows <= 64, len(line.nodes) <= MOST_NODES_WITH_NAMES)

    @property
    def bar(self) -> int:
        """The height of a process's bar in its row."""
        return max(3, self.row * 2 // 3)

    @property
    def phase(self) -> int:
        """The height of a line of phases."""
        return 20 if self.named_phases else 5


def lanes(line: Timeline, room: int) -> str:
    """The drawing of all nodes in `room` bytes; those for which there is none are counted."""
    density = Density.of(line)
    found = _fitting(line.nodes, [_node(node, line.seconds, density) for node in line.nodes], room)
    if not found:
        return ""
    many = " many" if not density.named_phases else ""
    small = "" if density.named_rows else " dense"
    axes = axis(line.seconds) * (2 if many else 1)
    return (
        f'{_legend(line)}<div class="lanes{many}{small}" style="--bar:{density.bar}px;{grid(line.seconds)}">'
        f'<div class="axes">{axes}</div><div class="nodes">{"".join(found)}</div></div>'
    )


def _fitting(nodes: Sequence[NodeTimeline], drawn: Sequence[str], room: int) -> List[str]:
    """The drawings that fit, in order; those of nodes where something failed are the last to go."""
    chosen = set()
    for number in sorted(range(len(nodes)), key=lambda number: not _has_failure(nodes[number])):
        room -= len(drawn[number].encode("utf-8"))
        if room < 0:
            break
        chosen.add(number)
    found = [drawn[number] for number in sorted(chosen)]
    left = len(nodes) - len(found)
    if left:
        text = Text(
            f"There is no room here for {left} further nodes.", f"篇幅所限，另有 {left} 个节点未绘出。"
        )
        found.append(f'<p class="notice">{both(text)}</p>')
    return found


def _has_failure(node: NodeTimeline) -> bool:
    return any(life.role in (CAUSE, FOLLOWED) for start in node.runs for life in start.processes)


def grid(seconds: float) -> str:
    """The style that puts lines behind a drawing where its axis has moments, in 1/1000 of a percent."""
    step, _ = ticks(seconds)
    return f"--tick:{figure(step / seconds * 100000)}"


def axis(seconds: float) -> str:
    """The moments, for people."""
    _, moments = ticks(seconds)
    marks = "".join(_moment(place(at, seconds) / UNITS * 100, said) for at, said in moments)
    return f'<div class="lane axis"><div></div><div class="ax">{marks}</div></div>'


def _moment(left: float, said: str) -> str:
    """A moment's words to the right of its line; near the end to the left, so that they stay inside."""
    side = f"left:{figure(left)}" if left < NEAR_THE_END else f"right:{figure(100 - left)}"
    return f'<i style="{side}%">{said}</i>'


def _legend(line: Timeline) -> str:
    phases = dict.fromkeys(phase.name for node in line.nodes for start in node.runs for phase in start.phases)
    parts = dict.fromkeys(life.role for node in line.nodes for start in node.runs for life in start.processes)
    kinds = dict.fromkeys(mark.kind for mark in line.all_incidents())
    if any(len(node.runs) > 1 for node in line.nodes):
        kinds["start"] = None
    silent = Text("before its first line", "首行输出之前")
    entries = [
        *(("p" + _phase_class(name), phase_name(name)) for name in list(phases)[:12]),
        *([("px", Text("failed phase", "失败的阶段"))] if _has_failed_phase(line) else []),
        *((_part_class(part), PARTS[part]) for part in PARTS if part in parts),
        *([("q", silent)] if parts else []),
        *((_LANE_MARKS[kind], MARKS[kind]) for kind in _LANE_MARKS if kind in kinds),
        *((_DOT_MARKS[kind], MARKS[kind]) for kind in _DOT_MARKS if kind in kinds),
    ]
    return (
        '<p class="legend">'
        + " ".join(f'<span><b class="{c}"></b>{both(t)}</span>' for c, t in entries)
        + "</p>"
    )


def _has_failed_phase(line: Timeline) -> bool:
    starts = [start for node in line.nodes for start in node.runs]
    return any(phase.outcome == "failed" for start in starts for phase in start.phases)


def _labels(node: NodeTimeline) -> Dict[str, int]:
    """The row of each process, in the order of the ranks."""
    ranks = {life.label: life.rank for start in node.runs for life in start.processes}
    ordered = sorted(ranks, key=lambda label: (ranks[label] is not None, ranks[label] or 0))
    return {label: row for row, label in enumerate(ordered)}


def _node(node: NodeTimeline, seconds: float, density: Density) -> str:
    rows = _labels(node)
    placed = _stacked(phase for start in node.runs for phase in start.phases)
    levels = 1 + max((level for level, _ in placed), default=0)
    phases = _named_phases if density.named_phases else _strips
    top = 0 if density.named_phases else levels * density.phase + 1
    height = top + len(rows) * density.row
    drawn = [*_lives(node, rows, seconds, density, top), *_marks(node, rows, seconds, density, top, height)]
    if not density.named_phases:
        drawn = [phases(placed, node, seconds, density), *drawn]
    svg = (
        f'<svg viewBox="0 0 1000 {height}" height={height} preserveAspectRatio=none>{"".join(drawn)}</svg>'
        if height
        else ""
    )
    names = _names(node, rows, levels, density, height)
    before = phases(placed, node, seconds, density) if density.named_phases else ""
    return f"<div class=lane><div class=nm>{names}</div><div class=dr>{before}{svg}</div></div>"


def _names(node: NodeTimeline, rows: Dict[str, int], levels: int, density: Density, height: int) -> str:
    """What stands before a node's drawing: each process where there is room, else the span of the ranks."""
    processes = [life for start in node.runs for life in start.processes]
    hit = next((life.label for life in processes if life.role == CAUSE), None)
    mark = " class=hit" if hit else ""
    name = f"<u>{node.number}</u>"  # the word before it comes with the style, hundreds of times
    if density.named_rows:
        found = f'<b style="height:{levels * density.phase}px">{name}</b>'
        for label in rows:
            chosen = mark if label == hit else ""
            found += f'<i{chosen} style="height:{density.row}px">{escaped(label)}</i>'
        return found
    if height < 2 * NAME_HEIGHT:
        return f"<b{mark}>{name}</b>"
    ranks = hit or ranges([life.rank for life in processes if life.rank is not None])
    return f"<b{mark}>{name}</b><i{mark}>{escaped(ranks)}</i>"


def _stacked(phases: Iterable[PhaseSpan]) -> List[Tuple[int, PhaseSpan]]:
    """Each phase with its level: phases at the same time lie above each other."""
    ends: List[float] = []
    found = []
    for phase in sorted(phases, key=lambda phase: phase.start):
        level = next((level for level, end in enumerate(ends) if end <= phase.start + 0.002), len(ends))
        level = min(level, 3)
        ends[level : level + 1] = [float("inf") if phase.end is None else phase.end]
        found.append((level, phase))
    return found


def _end_of(phase: PhaseSpan, node: NodeTimeline) -> float:
    """Where the bar of a phase ends: without an end, where the node's events do."""
    if phase.end is not None:
        return phase.end
    return next((start.end for start in node.runs if start.end >= phase.start), phase.start)


def _phase_class(name: str) -> str:
    return str(_PHASE_NUMBERS.get(name, 9))


def _named_phases(
    placed: Sequence[Tuple[int, PhaseSpan]], node: NodeTimeline, seconds: float, density: Density
) -> str:
    bars = []
    for level, phase in placed:
        left, right = place(phase.start, seconds), place(_end_of(phase, node), seconds)
        bad = {"failed": " bad", "stopped": " cut", "": " cut"}.get(phase.outcome, "")
        said = duration(_end_of(phase, node) - phase.start)
        title = f"{phase.name} {phase.outcome}, {said}" + (f": {phase.detail}" if phase.detail else "")
        bars.append(
            f'<div class="ph p{_phase_class(phase.name)}{bad}" title="{escaped(title)}" style="left:'
            f"{figure(left / 10)}%;width:{figure(max(NARROWEST, right - left) / 10)}%;"
            f'top:{level * density.phase}px"><span>{both(phase_name(phase.name))}'
            f" <em>{said}</em></span></div>"
        )
    levels = 1 + max((level for level, _ in placed), default=0)
    return f'<div class="phs" style="height:{levels * density.phase}px">{"".join(bars)}</div>'


def _strips(
    placed: Sequence[Tuple[int, PhaseSpan]], node: NodeTimeline, seconds: float, density: Density
) -> str:
    paths: Dict[str, List[str]] = {}
    for level, phase in placed:
        left, right = place(phase.start, seconds), place(_end_of(phase, node), seconds)
        failed = phase.outcome == "failed"
        if right - left < SMALLEST_PHASE and not failed:
            continue
        name = "zx" if failed else "z" + _phase_class(phase.name)
        y = level * density.phase + density.phase / 2
        paths.setdefault(name, []).append(
            f"M{figure(left)} {figure(y)}h{figure(max(NARROWEST, right - left))}"
        )
    return "".join(f'<path class={name} d="{"".join(parts)}"/>' for name, parts in paths.items())


def _part_class(part: str) -> str:
    return "l" + part[0]


def _lives(node: NodeTimeline, rows: Dict[str, int], seconds: float, density: Density, top: int) -> List[str]:
    found = []
    for start in node.runs:
        for life in start.processes:
            y = top + rows[life.label] * density.row + density.row / 2
            found.append(_life(life, start, y, seconds))
    return found


def _life(life: ProcessSpan, start: BootRun, y: float, seconds: float) -> str:
    end = start.end if life.end is None else life.end
    left, right = place(life.start, seconds), place(end, seconds)
    spoke = right if life.first_output is None else place(min(life.first_output, end), seconds)
    right = max(right, left + NARROWEST)
    quiet = f'<path class=q d="M{figure(left)} {figure(y)}H{figure(spoke)}"/>' if spoke - left > 0.05 else ""
    if spoke >= right - 0.05:  # not a word: the end alone has its colour
        spoke = right - NARROWEST
    bar = f'<path class={_part_class(life.role)} d="M{figure(spoke)} {figure(y)}H{figure(right)}"/>'
    dot = f'<path class=lx d="M{figure(right)} {figure(y)}h0"/>' if life.role == CAUSE else ""
    return f"<g><title>{escaped(_title(life, end))}</title>{quiet}{bar}{dot}</g>"


def _title(life: ProcessSpan, end: float) -> str:
    """The process in a line, in words that are the same in both languages."""
    lived = f"{life.start:.1f}–{end:.1f} s"
    code = "?" if life.code is None else code_shown(life.code, life.signal or 0)
    return f"{life.label}: {code}, {lived}"


def _marks(
    node: NodeTimeline, rows: Dict[str, int], seconds: float, density: Density, top: int, height: int
) -> List[str]:
    found = []
    for number, start in enumerate(node.runs):
        if number:
            found.append(_across("mr", start.begin, seconds, height))
        for mark in start.incidents:
            if mark.kind in _LANE_MARKS:
                found.append(_across(_LANE_MARKS[mark.kind], mark.at, seconds, height))
            elif mark.kind in _DOT_MARKS:
                x = figure(place(mark.at, seconds))
                for label in mark.label.split(", ")[:8]:
                    if label in rows:
                        y = figure(top + rows[label] * density.row + density.row / 2)
                        found.append(f'<path class="d {_DOT_MARKS[mark.kind]}" d="M{x} {y}h0"/>')
    return found


def _across(name: str, at: float, seconds: float, height: int) -> str:
    return f'<path class={name} d="M{figure(place(at, seconds))} 0V{height}"/>'
