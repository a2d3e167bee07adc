"""Charts over the time axis of the lanes: measured metrics, and the throughput of transfers. Pure.

A chart has a line for each rank, device or node. Of more than `MOST_LINES` it has the highest, the median and
the lowest value at each moment, and lines of their own for the ranks that stand out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Callable, NamedTuple

from ma_boot.report.page.lanes import UNITS, figure, place
from ma_boot.report.page.language import Text, same
from ma_boot.report.timeline.job_timeline import Measurement, Timeline
from ma_boot.wording import duration, size

# Pixels.
HEIGHT = 52
# Of a line; fewer draw no course over time, and the tables have the figures.
FEWEST_SAMPLES = 3
# Room above the highest value, so that its stroke is not cut off.
_TOP = 3.0
MOST_POINTS = 240
MOST_LINES = 16
# Slow ranks with a line of their own.
MOST_MARKED = 4
# page.css has this many colours for ranks: l0 to l7.
COLOURS = 8
# Share of the values of a metric with rare peaks that its scale shows: the first step compiles.
_HIGH = 0.98

# Times in seconds, or positions, each with a value.
Points = list[tuple[float, float]]
# The group of a metric (index in `_GROUPS`) and its name in there.
Key = tuple[int, str]


class Line(NamedTuple):
    """A line of a chart: its tooltip, its CSS class and its SVG path."""

    name: str
    kind: str
    path: str


class Chart(NamedTuple):
    """A chart; `high` and `low` are the ends of its scale."""

    name: Text
    high: str
    low: str
    lines: tuple[Line, ...]
    height: int = HEIGHT


class _Metric(NamedTuple):
    """A metric: `shown` formats its values, `from_zero` is whether its scale starts at 0."""

    name: Text
    shown: Callable[[float], str]
    from_zero: bool = True
    peaks: bool = False


_plain = "{:.4g}".format


def _mebibytes(value: float) -> str:
    return size(value * 1048576)


_RANKS = {
    "loss": _Metric(same("loss"), _plain, from_zero=False),
    "step_time": _Metric(Text("time of a step", "每步耗时"), duration, peaks=True),
    "cpu": _Metric(Text("CPU of ranks", "各 rank 的 CPU"), "{:.3g} cores".format),
    "rss": _Metric(Text("memory of ranks", "各 rank 的内存"), _mebibytes),
    "read": _Metric(Text("read from disk", "读磁盘"), "{:.3g} MB/s".format),
    "written": _Metric(Text("written to disk", "写磁盘"), "{:.3g} MB/s".format),
}
_CARDS = {
    "utilisation": _Metric(Text("use of cards", "卡利用率"), "{:.3g} %".format),
    "memory": _Metric(Text("memory of cards", "卡显存"), _mebibytes),
    "temperature": _Metric(Text("temperature of cards", "卡温度"), "{:.3g} °C".format, from_zero=False),
    "power": _Metric(Text("power of cards", "卡功率"), "{:.3g} W".format),
}
_HOST = {
    "cpu": _Metric(Text("CPU of nodes", "节点 CPU"), "{:.3g} cores".format),
    "memory": _Metric(Text("memory of nodes", "节点内存"), _mebibytes),
    "disk": _Metric(Text("disks", "磁盘"), _mebibytes),
    "received": _Metric(Text("network, received", "网络接收"), "{:.3g} MB/s".format),
    "sent": _Metric(Text("network, sent", "网络发送"), "{:.3g} MB/s".format),
}


_GROUPS = (_RANKS, _CARDS, _HOST)
# Metrics that are measured without reading what the ranks print.
_MEASURED = {"cpu", "rss", "read", "written"}


def charts_of(timeline: Timeline) -> list[Chart]:
    """Returns a chart for each metric with enough values: of training, ranks, devices, then nodes."""
    marked, series = _marked(timeline), _series(timeline)
    return [
        _chart(metric, series[key], timeline.seconds, marked)
        for key, metric in _metrics(series)
        if max(map(len, series[key].values())) >= FEWEST_SAMPLES
        and any(value for points in series[key].values() for _, value in points)
    ]


def throughput_chart(name: Text, kind: str, rates: Sequence[float]) -> Chart:
    """Returns the chart of a direction's bytes per second in equal parts of the job's time."""
    highest = max(rates)
    width = UNITS / len(rates)
    points = [((part + 0.5) * width, _y(rate, 0.0, highest)) for part, rate in enumerate(rates)]
    return Chart(name, f"{size(highest)}/s", f"{size(0)}/s", (Line(name.en, kind, _path(points)),))


def has_unread_metrics(timeline: Timeline) -> bool:
    """Returns whether ranks were measured, but neither a step nor a loss was read from their output."""
    names = {name for group, name in _series(timeline) if group == 0}
    return bool(names) and names <= _MEASURED


def legend_of(timeline: Timeline) -> Iterator[tuple[str, Text]]:
    """Yields the colour of each rank, if each has a line, and the reason why some are marked."""
    marked, series = _marked(timeline), _series(timeline)
    names = {name: None for key, lines in series.items() if key[0] == 0 for name in lines}
    for name in names if len(names) <= MOST_LINES else ():
        if name not in marked and _colour(name) != "each":
            yield _colour(name), same(name)
    reasons = {"slow": Text("slower than the others", "比其他 rank 慢"), "cause": Text("root cause", "根因")}
    for name, kind in marked.items():
        yield kind, Text(f"{name}: {reasons[kind].en}", f"{name}：{reasons[kind].zh}")


def _marked(timeline: Timeline) -> dict[str, str]:
    """Returns the ranks with marked lines, by CSS class: slow ones, and the root cause."""
    slow = [incident.label for incident in timeline.all_incidents() if incident.kind == "slow rank"]
    outcome = timeline.outcome
    cause = outcome.process.label if outcome.process and outcome.exit_code else ""
    return {**dict.fromkeys(slow[:MOST_MARKED], "slow"), **({cause: "cause"} if cause else {})}


def _metrics(series: Mapping[Key, object]) -> Iterator[tuple[Key, _Metric]]:
    """Yields the metrics with values in their order; those of `--metric` come after the time of a step."""
    for group, known in enumerate(_GROUPS):
        names = list(known)
        names[2:2] = [name for number, name in series if number == group and name not in known]
        for name in names:
            if (group, name) in series:
                yield (group, name), known.get(name) or _Metric(same(name), _plain, from_zero=False)


def _series(timeline: Timeline) -> dict[Key, dict[str, Points]]:
    """Returns the values over time, by metric and by rank, device or node."""
    several = len(timeline.nodes) > 1
    series: dict[Key, dict[str, Points]] = {}
    for node, run in timeline.all_runs():
        for sample in run.samples:
            for group, name, who, value in _values(sample, f"node {node}", several):
                series.setdefault((group, name), {}).setdefault(who, []).append((sample.at, value))
    return series


def _values(sample: Measurement, node: str, several: bool) -> Iterator[tuple[int, str, str, float]]:
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


def _chart(metric: _Metric, lines: Mapping[str, Points], seconds: float, marked: Mapping[str, str]) -> Chart:
    """Returns the chart of a metric; marked lines are drawn last, above the others."""
    everything = sorted(value for points in lines.values() for _, value in points)
    low, high = everything[0], everything[-1]
    top = everything[int(len(everything) * _HIGH)] * 1.1 if metric.peaks else high
    bottom = min(0.0, low) if metric.from_zero else low

    def line(name: str, kind: str, points: Points) -> Line:
        return Line(name, kind, _path([(x, _y(value, bottom, top)) for x, value in points]))

    if len(lines) <= MOST_LINES:
        ordinary = [
            line(name, _colour(name), _thinned(points, seconds))
            for name, points in lines.items()
            if name not in marked
        ]
    else:
        bins = _bins([point for points in lines.values() for point in points], seconds)
        ordinary = [
            line("highest", "each", [(x, max(values)) for x, values in bins]),
            line("lowest", "each", [(x, min(values)) for x, values in bins]),
            line("median", "middle", [(x, _median(values)) for x, values in bins]),
        ]
    special = [
        line(name, marked[name], _thinned(points, seconds))
        for name, points in lines.items()
        if name in marked
    ]
    return Chart(metric.name, metric.shown(top), metric.shown(bottom), (*ordinary, *special))


def _y(value: float, bottom: float, top: float) -> float:
    """Returns the distance from the top in pixels; values above the scale are drawn at its end."""
    span = max(top - bottom, 1e-9)
    return HEIGHT - min(1.0, (value - bottom) / span) * (HEIGHT - _TOP) - 0.5


def _colour(name: str) -> str:
    """Returns the CSS class of a rank's line, the same in all charts; `each` for anything else."""
    rank = name[len("rank ") :]
    return f"l{int(rank) % COLOURS}" if name.startswith("rank ") and rank.isdigit() else "each"


def _median(values: list[float]) -> float:
    """Returns the upper median; `statistics` takes longer to be imported than the charts to be made."""
    return sorted(values)[len(values) // 2]


def _bins(points: Points, seconds: float) -> list[tuple[float, list[float]]]:
    """Returns the values in each of at most 240 equal parts of the time, with the position of its middle."""
    parts: dict[int, list[float]] = {}
    for at, value in points:
        part = min(MOST_POINTS - 1, int(place(at, seconds) / UNITS * MOST_POINTS))
        parts.setdefault(part, []).append(value)
    return [((part + 0.5) * UNITS / MOST_POINTS, values) for part, values in sorted(parts.items())]


def _thinned(points: Points, seconds: float) -> Points:
    """Replaces times by positions, and more than 240 points by the means of equal parts of the time."""
    if len(points) <= MOST_POINTS:
        return [(place(at, seconds), value) for at, value in points]
    return [(x, sum(values) / len(values)) for x, values in _bins(points, seconds)]


def _path(points: Sequence[tuple[float, float]]) -> str:
    """Returns a line through the points; a single one becomes a short stroke."""
    if len(points) == 1:
        x, at_y = points[0]
        return f"M{figure(max(0.0, x - 2))} {figure(at_y)}H{figure(min(UNITS, x + 2))}"
    return "M" + "L".join(f"{figure(x)} {figure(at_y)}" for x, at_y in points)
