"""The transfers as values: bytes per second over time, and the rows of a table. Pure."""

from __future__ import annotations

from typing import Iterator, List, NamedTuple, Sequence, Tuple

from ma_boot.reporting.page.lanes import UNITS, figure
from ma_boot.reporting.page.language import Text, ranges, same
from ma_boot.reporting.timeline import Timeline, TransferSpan
from ma_boot.wording import duration, size

BINS = 200
HEIGHT = 72  # pixels
MOST_ROWS = 40
FEW_ROWS = 8
_DIRECTIONS = {"download": Text("download", "下载"), "upload": Text("upload", "上传")}


class TransferRow(NamedTuple):
    """A transfer, or all transfers of a direction."""

    direction: Text
    nodes: str
    files: Text
    size: str
    time: Text
    rate: str
    retries: str


class Curve(NamedTuple):
    """The throughput of a direction as an area of `height` pixels, a path in the syntax of SVG."""

    kind: str
    name: Text
    peak: str
    height: int
    path: str


class TransferSection(NamedTuple):
    """Curves and rows; if these sum up the directions, `each` has single transfers."""

    curves: Tuple[Curve, ...]
    rows: Tuple[TransferRow, ...]
    each: Tuple[TransferRow, ...]
    each_heading: Text


def transfers(timeline: Timeline) -> TransferSection:
    """The transfers of all nodes; of many of them the first 40."""
    found = [(node, transfer) for node, run in timeline.all_runs() for transfer in run.transfers]
    found.sort(key=lambda one: one[1].start)
    each = tuple(_row(node, transfer) for node, transfer in found[:MOST_ROWS])
    heading = Text("All transfers", "各次传输明细")
    if len(found) > MOST_ROWS:
        heading = Text(f"The first {MOST_ROWS} transfers", f"前 {MOST_ROWS} 次传输")
    if len(found) <= FEW_ROWS:
        return TransferSection(tuple(_curves(timeline)), each, (), heading)
    directions = list(dict.fromkeys(transfer.direction for _, transfer in found))[:FEW_ROWS]
    sums = (_sum([one for one in found if one[1].direction == direction]) for direction in directions)
    return TransferSection(tuple(_curves(timeline)), tuple(sums), each, heading)


def rates(moved: Sequence[TransferSpan], seconds: float, bins: int) -> List[float]:
    """Bytes per second in each of `bins` equal parts of the time; together they are all bytes."""
    width = seconds / bins
    found = [0.0] * bins
    for transfer in moved:
        for begin, end, count in _pieces(transfer):
            begin = min(max(0.0, begin), seconds)
            end = min(max(begin, end), seconds)
            first = min(bins - 1, int(begin / width))
            last = min(bins - 1, int(end / width))
            for part in range(first, last + 1):
                shared = min(end, (part + 1) * width) - max(begin, part * width)
                share = 1.0 if first == last else shared / (end - begin)
                found[part] += count * share / width
    return found


def _pieces(transfer: TransferSpan) -> Iterator[Tuple[float, float, int]]:
    """The bytes between one sample and the next, before the first one and after the last one."""
    at, before = transfer.start, 0
    for moment, count in transfer.samples:
        if moment >= at and count >= before:
            yield at, moment, count - before
            at, before = moment, count
    if transfer.end is not None and transfer.bytes > before:
        yield at, max(at, transfer.end), transfer.bytes - before


def _curves(timeline: Timeline) -> Iterator[Curve]:
    moved = [transfer for _, run in timeline.all_runs() for transfer in run.transfers if transfer.bytes]
    for direction, name in _DIRECTIONS.items():
        chosen = [transfer for transfer in moved if transfer.direction == direction]
        if chosen:
            values = rates(chosen, timeline.seconds, BINS)
            yield Curve(direction, name, f"{size(max(values))}/s", HEIGHT, _path(values))


def _path(values: List[float]) -> str:
    highest = max(values)
    width = UNITS / len(values)
    points = [f"M0 {HEIGHT}"]
    y = figure(HEIGHT)
    for number, value in enumerate(values):
        top = figure(HEIGHT - value / highest * (HEIGHT - 4))
        if top != y:
            points.append(f"H{figure(number * width)}V{top}")
            y = top
    return "".join([*points, f"H{figure(UNITS)}V{HEIGHT}z"])


def _sum(chosen: Sequence[Tuple[int, TransferSpan]]) -> TransferRow:
    spans = [transfer for _, transfer in chosen]
    slowest = duration(max((span.end or span.start) - span.start for span in spans))
    return TransferRow(
        direction=_name(spans[0]),
        nodes=ranges([node for node, _ in chosen]),
        files=_files(sum(span.files for span in spans), sum(span.by_length for span in spans)),
        size=size(sum(span.bytes for span in spans)),
        time=Text(f"up to {slowest}", f"最长 {slowest}"),
        rate="",
        retries=str(sum(span.retries for span in spans) or ""),
    )


def _name(transfer: TransferSpan) -> Text:
    return _DIRECTIONS.get(transfer.direction, same(transfer.direction))


def _row(node: int, transfer: TransferSpan) -> TransferRow:
    name, moved = _name(transfer), size(transfer.bytes)
    if transfer.end is None:
        return TransferRow(name, str(node), same(""), moved, Text("not finished", "未完成"), "", "")
    seconds = transfer.end - transfer.start
    rate = f"{size(transfer.bytes / seconds)}/s" if seconds > 0.001 else ""
    retries = str(transfer.retries or "")
    files = _files(transfer.files, transfer.by_length)
    return TransferRow(name, str(node), files, moved, same(duration(seconds)), rate, retries)


def _files(files: int, by_length: int) -> Text:
    if not by_length:
        return same(str(files))
    return Text(f"{files} (length only: {by_length})", f"{files}（仅核对长度：{by_length}）")
