"""The inputs and outputs: where they are, how they were transferred, bytes per second over time. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ma_boot.report.page.fill import NOTHING, Html, fill, folded_table, joined, table
from ma_boot.report.page.lanes import UNITS, axis, figure, tick
from ma_boot.report.page.language import Text, ranges, same
from ma_boot.report.timeline.job_timeline import PlaceOfData, Timeline, TransferSpan
from ma_boot.wording import duration, size

BINS = 200
HEIGHT = 72  # pixels
MOST_PLACES = 60
MOST_ROWS = 40
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


def data_part(timeline: Timeline) -> Html:
    """Inputs and outputs, and their transfers: a row for each while they are few, else for each direction."""
    places = _place_rows(timeline)
    transfers = [(node, transfer) for node, run in timeline.all_runs() for transfer in run.transfers]
    if not transfers and not places:
        return NOTHING
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
    curves = joined(_curves(timeline), "\n")
    of_time = {"tick": tick(timeline.seconds), "axis": axis(timeline.seconds)}
    return fill(
        "data",
        heading=Text("Inputs and outputs", "输入与输出"),
        places=_table_of_places(places),
        curves=fill("curves", **of_time, curves=curves) if curves else NOTHING,
        rows=table(_TRANSFERS, rows) if rows else NOTHING,
        each=folded_table(heading, _TRANSFERS, each),
    )


def _table_of_places(places: Sequence[Row]) -> Html:
    """A row for each place; columns that are empty in all of them are left out."""
    shown = [column for column in range(len(_PLACES)) if any(row[column] for row in places)]
    rows = (
        [fill("path", path=row[column]) if column in (3, 4) else row[column] for column in shown]
        for row in places
    )
    return table([_PLACES[column] for column in shown], rows) if places else NOTHING


def _place_rows(timeline: Timeline) -> list[Row]:
    """The inputs and outputs of the last run of each node; the same one on several nodes in one row.

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
        rows.append((way, ranges(nodes), place.name, place.local, place.url, *figures))
    return rows


def rates(moved: Sequence[TransferSpan], seconds: float, bins: int) -> list[float]:
    """Bytes per second in each of `bins` equal parts of the time; together they are all bytes."""
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
    """The bytes between one sample and the next, before the first one and after the last one."""
    at, before = transfer.start, 0
    for moment, count in transfer.samples:
        if moment >= at and count >= before:
            yield at, moment, count - before
            at, before = moment, count
    if transfer.end is not None and transfer.bytes > before:
        yield at, max(at, transfer.end), transfer.bytes - before


def _curves(timeline: Timeline) -> Iterator[Html]:
    """The throughput of each direction as an area."""
    moved = [transfer for _, run in timeline.all_runs() for transfer in run.transfers if transfer.bytes]
    for direction, name in _DIRECTIONS.items():
        chosen = [transfer for transfer in moved if transfer.direction == direction]
        if chosen:
            values = rates(chosen, timeline.seconds, BINS)
            highest = f"{size(max(values))}/s"
            peak = Text(f"peak {highest}", f"峰值 {highest}")
            yield fill("curve", name=name, peak=peak, height=HEIGHT, kind=direction, path=_path(values))


def _path(values: list[float]) -> str:
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


def _sum(chosen: Sequence[tuple[int, TransferSpan]]) -> Row:
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
