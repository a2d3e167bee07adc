"""Inputs and outputs as tables, and the throughput of their transfers over time. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from markupsafe import Markup

from ma_boot.report.page.charts import FEWEST_SAMPLES, Chart, throughput_chart
from ma_boot.report.page.language import Text, ranges, same
from ma_boot.report.timeline.job_timeline import PlaceOfData, Timeline, TransferSpan
from ma_boot.wording import duration, size

# Parts of the time in the chart of the throughput.
BINS = 200
MOST_PLACES = 60
MOST_ROWS = 40
# More transfers than these are summed up by direction, and listed in a table that is folded.
FEW_ROWS = 8
_DIRECTIONS = {"download": Text("download", "下载"), "upload": Text("upload", "上传")}
_PLACES = (
    Text("direction", "方向"),
    Text("node", "节点"),
    Text("name", "名称"),
    Text("on the node", "节点上的路径"),
    Text("in OBS", "OBS 中的位置"),
    Text("files", "文件数"),
    Text("size", "大小"),
)
_TRANSFERS = (
    Text("direction", "方向"),
    Text("node", "节点"),
    Text("files", "文件数"),
    Text("size", "大小"),
    Text("time", "耗时"),
    Text("average rate", "平均速率"),
    Text("retries", "重试次数"),
)
_WAYS = {"input": Text("input", "输入"), "output": Text("output", "输出")}
_MOVES = {"input": "download", "output": "upload"}
Row = tuple[object, ...]


class Data(NamedTuple):
    """The section on inputs and outputs; `each` are single transfers where `transfers` has their sums."""

    place_names: tuple[Text, ...]
    places: list[Row]
    curves: list[Chart]
    transfer_names: tuple[Text, ...]
    transfers: list[Row]
    each_heading: Text
    each: list[Row]


def data_of(timeline: Timeline) -> Data | None:
    """Returns inputs, outputs and transfers; None if there are none."""
    places = _place_rows(timeline)
    transfers = [(node, transfer) for node, run in timeline.all_runs() for transfer in run.transfers]
    if not transfers and not places:
        return None
    transfers.sort(key=lambda transfer: transfer[1].start)
    rows = [_row(node, transfer) for node, transfer in transfers[:MOST_ROWS]]
    each: list[Row] = []
    if len(transfers) > FEW_ROWS:
        directions = list(dict.fromkeys(transfer.direction for _, transfer in transfers))[:FEW_ROWS]
        members = ([row for row in transfers if row[1].direction == direction] for direction in directions)
        rows, each = list(map(_sum, members)), rows
    heading = Text("All transfers", "各次传输明细")
    if len(transfers) > MOST_ROWS:
        heading = Text(f"The first {MOST_ROWS} transfers", f"前 {MOST_ROWS} 次传输")
    # Columns that are empty in all rows are left out.
    shown = [column for column in range(len(_PLACES)) if any(row[column] for row in places)]
    return Data(
        place_names=tuple(_PLACES[column] for column in shown),
        places=[tuple(row[column] for column in shown) for row in places],
        curves=list(_curves(timeline)),
        transfer_names=_TRANSFERS,
        transfers=rows,
        each_heading=heading,
        each=each,
    )


def _place_rows(timeline: Timeline) -> list[Row]:
    """Returns the inputs and outputs of each node's last run; one that several nodes have is one row.

    The only input or output of a path mapping has the figures of all transfers in its direction.
    """
    alike: dict[PlaceOfData, list[int]] = {}
    for node in timeline.nodes:
        for place in node.last.places:
            alike.setdefault(place, []).append(node.number)
    transfers = [transfer for _, run in timeline.all_runs() for transfer in run.transfers]
    mapped = [place.direction for place in alike if place.files is None]
    rows: list[Row] = []
    for place, nodes in list(alike.items())[:MOST_PLACES]:
        files, count, more = place.files, place.bytes, "" if place.complete else "> "
        own = [transfer for transfer in transfers if transfer.direction == _MOVES.get(place.direction)]
        if files is None and own and mapped.count(place.direction) == 1:
            files, count = sum(transfer.files for transfer in own), sum(transfer.bytes for transfer in own)
        way = _WAYS.get(place.direction, same(place.direction))
        figures = "" if files is None else f"{more}{files}", "" if count is None else f"{more}{size(count)}"
        rows.append((way, ranges(nodes), place.name, *map(_code, (place.local, place.url)), *figures))
    return rows


def _code(path: str) -> Markup | str:
    return Markup("<code>{}</code>").format(path) if path else ""


def rates(moved: Sequence[TransferSpan], seconds: float, bins: int) -> list[float]:
    """Returns bytes per second in each of `bins` equal parts of the time; each byte counts once.

    Between two samples of a transfer the rate is taken to be constant.
    """
    width = seconds / bins
    values = [0.0] * bins
    for transfer in moved:
        for start, end, count in _pieces(transfer):
            start = min(max(0.0, start), seconds)
            end = min(max(start, end), seconds)
            first = min(bins - 1, int(start / width))
            last = min(bins - 1, int(end / width))
            for part in range(first, last + 1):
                shared = min(end, (part + 1) * width) - max(start, part * width)
                share = 1.0 if first == last else shared / (end - start)
                values[part] += count * share / width
    return values


def _pieces(transfer: TransferSpan) -> Iterator[tuple[float, float, int]]:
    """Yields start, end and bytes of each time between two samples, the start and the end of a transfer."""
    at, before = transfer.start, 0
    for moment, count in transfer.samples:
        if moment >= at and count >= before:
            yield at, moment, count - before
            at, before = moment, count
    if transfer.end is not None and transfer.bytes > before:
        yield at, max(at, transfer.end), transfer.bytes - before


def _curves(timeline: Timeline) -> Iterator[Chart]:
    """Yields the throughput of each direction whose transfers have enough samples."""
    moved = [transfer for _, run in timeline.all_runs() for transfer in run.transfers if transfer.bytes]
    for direction, name in _DIRECTIONS.items():
        chosen = [transfer for transfer in moved if transfer.direction == direction]
        if sum(1 for transfer in chosen for _ in _pieces(transfer)) >= FEWEST_SAMPLES:
            yield throughput_chart(name, direction, rates(chosen, timeline.seconds, BINS))


def _sum(chosen: Sequence[tuple[int, TransferSpan]]) -> Row:
    """Returns one row for all transfers of a direction."""
    spans = [transfer for _, transfer in chosen]
    slowest = duration(max((span.end or span.start) - span.start for span in spans))
    files = _files(sum(span.files for span in spans), sum(span.by_length for span in spans))
    moved, retries = size(sum(span.bytes for span in spans)), sum(span.retries for span in spans)
    time = Text(f"up to {slowest}", f"最长 {slowest}")
    return _name(spans[0]), ranges([node for node, _ in chosen]), files, moved, time, "", retries or ""


def _name(transfer: TransferSpan) -> Text:
    return _DIRECTIONS.get(transfer.direction, same(transfer.direction))


def _row(node: int, transfer: TransferSpan) -> Row:
    name, moved = _name(transfer), size(transfer.bytes)
    if transfer.end is None:
        return name, node, "", moved, Text("not finished", "未完成"), "", ""
    seconds = transfer.end - transfer.start
    rate = f"{size(transfer.bytes / seconds)}/s" if seconds > 0.001 else ""
    files = _files(transfer.files, transfer.by_length)
    return name, node, files, moved, duration(seconds), rate, transfer.retries or ""


def _files(files: int, by_length: int) -> Text:
    if not by_length:
        return same(str(files))
    return Text(f"{files} (length only: {by_length})", f"{files}（仅核对长度：{by_length}）")
