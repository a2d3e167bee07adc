"""Two runs side by side, as values: what each took, and the difference. Pure."""

from __future__ import annotations

from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ma_boot.reporting.page.headline import headline
from ma_boot.reporting.page.language import PHASES, Text, phase_name, same
from ma_boot.reporting.timeline import Timeline
from ma_boot.wording import duration, size

MOST_TIMES = 100
SAME = 0.02  # a smaller part is no difference


class ComparedRow(NamedTuple):
    """A figure of both runs, in words; `difference` is that of the other one, empty where there is none."""

    name: Text
    this: Text
    other: Text
    difference: str


Figure = Tuple[Text, Callable[[float], str], Callable[[Timeline], Optional[float]]]


def compared(this: Timeline, other: Timeline) -> List[ComparedRow]:
    """A row for each figure that at least one of the runs has."""
    rows = [ComparedRow(Text("end", "结局"), headline(this), headline(other), "")]
    for name, shown, of in _figures():
        found = (of(this), of(other))
        if found != (None, None):
            texts = [same("–" if value is None else shown(value)) for value in found]
            rows.append(ComparedRow(name, texts[0], texts[1], _difference(*found)))
    return rows


def _figures() -> Iterator[Figure]:
    yield Text("duration", "总耗时"), duration, lambda line: line.seconds
    yield Text("nodes", "节点数"), _count, lambda line: len(line.nodes)
    yield Text("processes", "进程数"), _count, lambda line: sum(1 for _ in line.last_processes())
    for phase in PHASES:
        name = phase_name(phase)
        yield Text(f"{name.en} (slowest node)", f"{name.zh}（最慢的节点）"), duration, _phase(phase)
    yield Text("until first output (slowest)", "到首次输出（最慢）"), duration, _until_output
    yield Text("downloaded", "下载量"), size, _moved("download")
    yield Text("uploaded", "上传量"), size, _moved("upload")
    yield Text("time of a step (median)", "每步耗时（中位数）"), _seconds, _measured("step_time", _middle)
    yield Text("loss (last)", "loss（最后）"), _count, _measured("loss", lambda values: values[-1])
    yield Text("CPU of a rank (median)", "每个 rank 的 CPU（中位数）"), _count, _measured("cpu", _middle)
    yield Text("memory of a rank (highest)", "每个 rank 的内存（最高）"), _mebibytes, _measured("rss", max)


def _difference(this: Optional[float], other: Optional[float]) -> str:
    """`+12 %`, `-40 %` or `x 3.1`: of the other run, compared with this one."""
    if not this or other is None:
        return ""
    ratio = other / this
    if abs(ratio - 1) < SAME:
        return "="
    if ratio >= 2:
        return f"x {ratio:.1f}" if ratio < MOST_TIMES else f"> x {MOST_TIMES}"
    if 0 < ratio < 0.01:
        return f"-{min(99.9, (1 - ratio) * 100):.1f} %"  # only nothing at all is -100 %
    return f"{'+' if ratio > 1 else '-'}{abs(ratio - 1) * 100:.0f} %"


def _count(value: float) -> str:
    return f"{value:.4g}"


def _seconds(value: float) -> str:
    return f"{value:.3g} s"


def _mebibytes(value: float) -> str:
    return size(value * 1048576)


def _middle(values: List[float]) -> float:
    return sorted(values)[len(values) // 2]


def _phase(name: str) -> Callable[[Timeline], Optional[float]]:
    def longest(line: Timeline) -> Optional[float]:
        phases = [phase for node in line.nodes for run in node.runs[-1:] for phase in run.phases]
        return max(
            (one.end - one.start for one in phases if one.name == name and one.end is not None), default=None
        )

    return longest


def _until_output(line: Timeline) -> Optional[float]:
    first = (one.first_output - one.start for _, one in line.last_processes() if one.first_output is not None)
    return max(first, default=None)


def _moved(direction: str) -> Callable[[Timeline], Optional[float]]:
    def total(line: Timeline) -> Optional[float]:
        found = [
            one.bytes for _, run in line.all_runs() for one in run.transfers if one.direction == direction
        ]
        return sum(found) if found else None

    return total


def _measured(metric: str, of: Callable[[List[float]], float]) -> Callable[[Timeline], Optional[float]]:
    def figure(line: Timeline) -> Optional[float]:
        by_time: Dict[float, List[float]] = {}
        for _, run in line.all_runs():
            for sample in run.samples:
                by_time.setdefault(sample.at, []).extend(sample.ranks.get(metric, {}).values())
        values = [value for at in sorted(by_time) for value in by_time[at]]
        return of(values) if values else None

    return figure
