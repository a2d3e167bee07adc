"""What was measured: a chart for each metric, on the time axis of the lanes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Callable, NamedTuple

from ma_boot.report.page.fill import NOTHING, Html, fill, joined, notice
from ma_boot.report.page.lanes import UNITS, axis, figure, place, tick
from ma_boot.report.page.language import Text, same
from ma_boot.report.timeline.job_timeline import Measurement, Timeline
from ma_boot.wording import duration, size

HEIGHT = 52  # pixels
MOST_POINTS = 240  # of a line
MOST_LINES = 16  # beyond that a band with the middle
MOST_MARKED = 4
COLOURS = 8  # of the lines of ranks
_TOP = 3.0  # pixels above the highest value
_HIGH = 0.98  # of the values of a metric with rare peaks: the first step compiles

Points = list[tuple[float, float]]


class _Metric(NamedTuple):
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


def charts_part(timeline: Timeline) -> Html:
    """A chart for each metric that was measured: those of training first, then of ranks, cards and nodes."""
    marked, series = _marked(timeline), _series(timeline)
    charts = [
        _chart(metric, series[key], timeline.seconds, marked)
        for key, metric in _metrics(series)
        if any(value for points in series[key].values() for _, value in points)
    ]
    if not charts:
        return NOTHING
    return fill(
        "charts",
        heading=Text("Metrics", "指标"),
        legend=joined(_legend(series, marked)),
        tick=tick(timeline.seconds),
        axis=axis(timeline.seconds),
        rows=joined([*charts, *_unread({name for group, name in series if group == 0})], "\n"),
    )


def _unread(names: set[str]) -> Iterator[Html]:
    """What to do if ranks were measured, and nothing was read of what they printed."""
    if names and names <= _MEASURED:
        yield notice(
            "No step and no loss was read from what the ranks printed: give patterns of your lines, such as "
            "--metric 'loss=my loss: ([0-9.e+-]+)' --metric 'step=my step ([0-9]+)'",
            "没有从各 rank 的输出中读到步数和 loss：请按自己的输出格式给出正则表达式，例如 "
            "--metric 'loss=my loss: ([0-9.e+-]+)' --metric 'step=my step ([0-9]+)'",
        )


def _marked(timeline: Timeline) -> dict[str, str]:
    """The ranks whose lines are marked, by CSS class: the slow ones, and the one that failed first."""
    slow = [incident.label for incident in timeline.all_incidents() if incident.kind == "slow rank"]
    cause = timeline.outcome.process.label if timeline.outcome.process else ""
    return {**dict.fromkeys(slow[:MOST_MARKED], "slow"), **({cause: "cause"} if cause else {})}


def _legend(series: Mapping[Key, Mapping[str, Points]], marked: Mapping[str, str]) -> Iterator[Html]:
    """The colour of each rank, while there is a line for each, and why some ranks are marked."""
    names = {name: None for key, lines in series.items() if key[0] == 0 for name in lines}
    for name in names if len(names) <= MOST_LINES else ():
        if name not in marked and _colour(name) != "each":
            yield fill("legend-entry", kind=_colour(name), name=same(name))
    for name, kind in marked.items():
        why = (
            Text("slower than the others", "比其他 rank 慢") if kind == "slow" else Text("the cause", "根因")
        )
        yield fill("legend-entry", kind=kind, name=Text(f"{name}: {why.en}", f"{name}：{why.zh}"))


_MEASURED = {"cpu", "rss", "read", "written"}  # without a word of the ranks
_GROUPS = (_RANKS, _CARDS, _HOST)
Key = tuple[int, str]  # the group, and the name of the metric in it


def _metrics(series: Mapping[Key, object]) -> Iterator[tuple[Key, _Metric]]:
    """The metrics that have values, in their order; what the user named comes after the loss."""
    for group, known in enumerate(_GROUPS):
        names = list(known)
        names[2:2] = [name for number, name in series if number == group and name not in known]
        for name in names:
            if (group, name) in series:
                yield (group, name), known.get(name) or _Metric(same(name), _plain, from_zero=False)


def _series(timeline: Timeline) -> dict[Key, dict[str, Points]]:
    """The values over time, by metric and by whose they are."""
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


def _chart(metric: _Metric, lines: Mapping[str, Points], seconds: float, marked: Mapping[str, str]) -> Html:
    """The lines of a metric, or a band where they are too many; above it those that are marked."""
    everything = sorted(value for points in lines.values() for _, value in points)
    low, high = everything[0], everything[-1]
    top = everything[int(len(everything) * _HIGH)] * 1.1 if metric.peaks else high
    bottom = min(0.0, low) if metric.from_zero else low
    span = max(top - bottom, 1e-9)
    special = [name for name in lines if name in marked]
    few = len(lines) <= MOST_LINES

    def y(value: float) -> float:
        return HEIGHT - min(1.0, (value - bottom) / span) * (HEIGHT - _TOP) - 0.5

    def line(kind: str, name: str, points: Points) -> Html:
        kind = _colour(name) if kind == "each" else kind
        return fill("line", kind=kind, name=name, path=_path([(x, y(value)) for x, value in points]))

    each = [
        line("each", name, _thinned(lines[name], seconds)) for name in lines if few and name not in special
    ]
    band = NOTHING
    if not few:
        bins = _bins([point for points in lines.values() for point in points], seconds)
        band = fill("band", path=_band([(x, y(max(values)), y(min(values))) for x, values in bins]))
        each = [line("middle", "median", [(x, _median(values)) for x, values in bins])]
    above = [line(marked[name], name, _thinned(lines[name], seconds)) for name in special]
    scale = {"high": metric.shown(top), "low": metric.shown(bottom)}
    return fill("chart", name=metric.name, **scale, height=HEIGHT, band=band, lines=joined([*each, *above]))


def _colour(name: str) -> str:
    """The CSS class of a rank's line, the same in all charts; that of anything else."""
    rank = name[len("rank ") :]
    return f"l{int(rank) % COLOURS}" if name.startswith("rank ") and rank.isdigit() else "each"


def _median(values: list[float]) -> float:
    """The upper median; `statistics` takes longer to be imported than the charts to be made."""
    return sorted(values)[len(values) // 2]


def _bins(points: Points, seconds: float) -> list[tuple[float, list[float]]]:
    """The values in each of at most 240 equal parts of the time, with the position of its middle."""
    parts: dict[int, list[float]] = {}
    for at, value in points:
        part = min(MOST_POINTS - 1, int(place(at, seconds) / UNITS * MOST_POINTS))
        parts.setdefault(part, []).append(value)
    return [((part + 0.5) * UNITS / MOST_POINTS, values) for part, values in sorted(parts.items())]


def _thinned(points: Points, seconds: float) -> Points:
    """The points with their positions in place of their times; of more than 240 points those of means."""
    if len(points) <= MOST_POINTS:
        return [(place(at, seconds), value) for at, value in points]
    return [(x, sum(values) / len(values)) for x, values in _bins(points, seconds)]


def _path(points: Sequence[tuple[float, float]]) -> str:
    """A line through the points; a single one becomes a short stroke."""
    if len(points) == 1:
        x, at_y = points[0]
        return f"M{figure(max(0.0, x - 2))} {figure(at_y)}H{figure(min(UNITS, x + 2))}"
    return "M" + "L".join(f"{figure(x)} {figure(at_y)}" for x, at_y in points)


def _band(parts: Sequence[tuple[float, float, float]]) -> str:
    over = [f"{figure(x)} {figure(high)}" for x, high, _ in parts]
    under = [f"{figure(x)} {figure(low)}" for x, _, low in reversed(parts)]
    return "M" + "L".join([*over, *under]) + "z"
