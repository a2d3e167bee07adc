"""What was measured as values: a chart for each metric, on the time axis of the lanes. Pure."""

from __future__ import annotations

from typing import Callable, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

from ma_boot.reporting.page.lanes import UNITS, figure, place
from ma_boot.reporting.page.language import Text, same
from ma_boot.reporting.timeline import Measurement, Timeline
from ma_boot.wording import duration, size

HEIGHT = 52  # pixels
MOST_POINTS = 240  # of a line
MOST_LINES = 16  # beyond that a band with the middle
MOST_MARKED = 4
_TOP = 3.0  # pixels above the highest value
_HIGH = 0.98  # of the values of a metric with rare peaks: the first step compiles

Points = List[Tuple[float, float]]


class Line(NamedTuple):
    """The values of one rank, card or node, a path in the syntax of SVG; `kind` is a CSS class."""

    kind: str
    name: str
    path: str


class MetricChart(NamedTuple):
    """A metric: its name, its lowest and highest value, lines, and a band where these are too many."""

    name: Text
    range: str
    height: int
    band: str
    lines: Tuple[Line, ...]


class _Metric(NamedTuple):
    name: Text
    shown: Callable[[float], str]
    from_zero: bool = True
    peaks: bool = False


def _plain(value: float) -> str:
    return f"{value:.4g}"


def _unit(unit: str) -> Callable[[float], str]:
    return lambda value: f"{value:.3g} {unit}"


def _mebibytes(value: float) -> str:
    return size(value * 1048576)


_RANKS = {
    "step_time": _Metric(Text("time of a step", "每步耗时"), duration, peaks=True),
    "loss": _Metric(same("loss"), _plain, from_zero=False),
    "cpu": _Metric(Text("CPU of ranks", "各 rank 的 CPU"), _unit("cores")),
    "rss": _Metric(Text("memory of ranks", "各 rank 的内存"), _mebibytes),
    "read": _Metric(Text("read from disk", "读磁盘"), _unit("MB/s")),
    "written": _Metric(Text("written to disk", "写磁盘"), _unit("MB/s")),
}
_CARDS = {
    "utilisation": _Metric(Text("use of cards", "卡利用率"), _unit("%")),
    "memory": _Metric(Text("memory of cards", "卡显存"), _mebibytes),
    "temperature": _Metric(Text("temperature of cards", "卡温度"), _unit("°C"), from_zero=False),
    "power": _Metric(Text("power of cards", "卡功率"), _unit("W")),
}
_HOST = {
    "cpu": _Metric(Text("CPU of nodes", "节点 CPU"), _unit("cores")),
    "memory": _Metric(Text("memory of nodes", "节点内存"), _mebibytes),
    "disk": _Metric(Text("disks", "磁盘"), _mebibytes),
    "received": _Metric(Text("network, received", "网络接收"), _unit("MB/s")),
    "sent": _Metric(Text("network, sent", "网络发送"), _unit("MB/s")),
}


def marked(timeline: Timeline) -> Dict[str, str]:
    """The ranks whose lines are marked, by CSS class: the slow ones, and the one that failed first."""
    slow = [one.label for one in timeline.all_incidents() if one.kind == "slow rank"]
    cause = timeline.outcome.process.label if timeline.outcome.process else ""
    return {**dict.fromkeys(slow[:MOST_MARKED], "slow"), **({cause: "cause"} if cause else {})}


def charts(timeline: Timeline) -> List[MetricChart]:
    """A chart for each metric that was measured: those of training first, then of ranks, cards and nodes."""
    kinds = marked(timeline)
    series = _series(timeline)
    return [
        _chart(metric, series[key], timeline.seconds, kinds)
        for key, metric in _metrics(series)
        if any(value for points in series[key].values() for _, value in points)
    ]


_GROUPS = (_RANKS, _CARDS, _HOST)
Key = Tuple[int, str]  # the group, and the name of the metric in it


def _metrics(series: Mapping[Key, object]) -> Iterator[Tuple[Key, _Metric]]:
    """The metrics that have values, in their order; what the user named comes after the loss."""
    for group, known in enumerate(_GROUPS):
        names = list(known)
        names[2:2] = [name for number, name in series if number == group and name not in known]
        for name in names:
            if (group, name) in series:
                yield (group, name), known.get(name) or _Metric(same(name), _plain, from_zero=False)


def _series(timeline: Timeline) -> Dict[Key, Dict[str, Points]]:
    """The values over time, by metric and by whose they are."""
    several = len(timeline.nodes) > 1
    found: Dict[Key, Dict[str, Points]] = {}
    for node, run in timeline.all_runs():
        for sample in run.samples:
            for group, name, who, value in _values(sample, f"node {node}", several):
                found.setdefault((group, name), {}).setdefault(who, []).append((sample.at, value))
    return found


def _values(sample: Measurement, node: str, several: bool) -> Iterator[Tuple[int, str, str, float]]:
    for name, values in sample.ranks.items():
        if name != "threads":
            for who, value in values.items():
                yield 0, name, f"rank {who}" if who.isdigit() else who, value
    for name, values in sample.cards.items():
        for who, value in values.items():
            yield 1, name, f"{node} card {who}" if several else f"card {who}", value
    for name, values in sample.host.items():
        for who, value in values.items():
            yield 2, name, f"{node} {who}".strip(), value


def _chart(
    metric: _Metric, lines: Mapping[str, Points], seconds: float, kinds: Mapping[str, str]
) -> MetricChart:
    everything = sorted(value for points in lines.values() for _, value in points)
    low, high = everything[0], everything[-1]
    top = everything[int(len(everything) * _HIGH)] * 1.1 if metric.peaks else high
    bottom = min(0.0, low) if metric.from_zero else low
    span = max(top - bottom, 1e-9)
    special = [name for name in lines if name in kinds]
    few = len(lines) <= MOST_LINES

    def y(value: float) -> float:
        return HEIGHT - min(1.0, (value - bottom) / span) * (HEIGHT - _TOP) - 0.5

    def path(points: Points) -> str:
        return _path([(place(at, seconds), y(value)) for at, value in _thinned(points, seconds)])

    drawn = [
        Line("each", name, path(points)) for name, points in lines.items() if few and name not in special
    ]
    band = ""
    if not few:
        bins = _bins([point for points in lines.values() for point in points], seconds)
        band = _band([(at, y(max(values)), y(min(values))) for at, values in bins])
        drawn.append(Line("middle", "median", _path([(at, y(_median(values))) for at, values in bins])))
    drawn += [Line(kinds[name], name, path(lines[name])) for name in special]
    return MetricChart(metric.name, _range(metric.shown(low), metric.shown(high)), HEIGHT, band, tuple(drawn))


def _median(values: List[float]) -> float:
    return sorted(values)[
        len(values) // 2
    ]  # `statistics` takes longer to be imported than the charts to be made


def _range(low: str, high: str) -> str:
    """`0.9 – 1.1 cores`: the unit once, where it is the same."""
    figures, _, unit = low.partition(" ")
    if low == high:
        return low
    return f"{figures} – {high}" if unit and high.endswith(f" {unit}") else f"{low} – {high}"


def _bins(points: Points, seconds: float) -> List[Tuple[float, List[float]]]:
    """The values in each of at most 240 equal parts of the time, with the middle of the part."""
    found: Dict[int, List[float]] = {}
    for at, value in points:
        found.setdefault(min(MOST_POINTS - 1, int(place(at, seconds) / UNITS * MOST_POINTS)), []).append(
            value
        )
    return [((number + 0.5) * UNITS / MOST_POINTS, values) for number, values in sorted(found.items())]


def _thinned(points: Points, seconds: float) -> Points:
    """The points, of more than 240 means."""
    if len(points) <= MOST_POINTS:
        return points
    return [(at / UNITS * seconds, sum(values) / len(values)) for at, values in _bins(points, seconds)]


def _path(points: Sequence[Tuple[float, float]]) -> str:
    """A line through the points; a single one becomes a short stroke."""
    if len(points) == 1:
        x, at_y = points[0]
        return f"M{figure(max(0.0, x - 2))} {figure(at_y)}H{figure(min(UNITS, x + 2))}"
    return "M" + "L".join(f"{figure(x)} {figure(at_y)}" for x, at_y in points)


def _band(parts: Sequence[Tuple[float, float, float]]) -> str:
    over = [f"{figure(x)} {figure(high)}" for x, high, _ in parts]
    under = [f"{figure(x)} {figure(low)}" for x, _, low in reversed(parts)]
    return "M" + "L".join([*over, *under]) + "z"
