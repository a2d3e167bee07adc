"""What was downloaded and uploaded: bytes a second over time, and each transfer in a table. Pure."""

from __future__ import annotations

from typing import Iterator, List, Sequence, Tuple

from ma_boot.reporting import duration, size
from ma_boot.reporting.page.lanes import axis, grid
from ma_boot.reporting.page.markup import both, escaped, folded, ranges, table
from ma_boot.reporting.page.scale import UNITS, figure
from ma_boot.reporting.page.words import Text, same
from ma_boot.reporting.timeline import Timeline, TransferSpan

BINS = 200
HEIGHT = 72
MOST_ROWS = 40
FEW_ROWS = 8
_HEAD = (
    Text("direction", "方向"), Text("node", "节点"), Text("files", "文件"), Text("size", "大小"),
    Text("time", "用时"), Text("on average", "平均速率"), Text("requests made again", "重试请求"),
)  # fmt: skip
_DIRECTIONS = {"download": Text("download", "下载"), "upload": Text("upload", "上传")}


def transfers(line: Timeline) -> str:
    """The chart and the table; empty where nothing was moved."""
    every = _every(line)
    moved = [transfer for _, transfer in every if transfer.bytes or transfer.files]
    if not every:
        return ""
    charts = ""
    for direction in _DIRECTIONS:
        chosen = [transfer for transfer in moved if transfer.direction == direction and transfer.bytes]
        if chosen:
            charts += _chart(direction, rates(chosen, line.seconds, BINS), line.seconds)
    drawn = (
        f'<div class="lanes" style="{grid(line.seconds)}">{axis(line.seconds)}{charts}</div>'
        if charts
        else ""
    )
    return drawn + _table(every)


def rates(moved: Sequence[TransferSpan], seconds: float, bins: int) -> List[float]:
    """Bytes a second in each of `bins` equal parts of the time; their sum is that of all bytes."""
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
                share = 1.0 if end <= begin or first == last else max(0.0, shared) / (end - begin)
                found[part] += count * share / width
    return found


def _pieces(transfer: TransferSpan) -> Iterator[Tuple[float, float, int]]:
    """The bytes between one sample and the next, also before the first and after the last."""
    at, before = transfer.start, 0
    for moment, count in transfer.samples:
        if moment >= at and count > before:
            yield at, moment, count - before
            at, before = moment, count
    if transfer.end is not None and transfer.bytes > before:
        yield at, max(at, transfer.end), transfer.bytes - before


def _chart(direction: str, values: List[float], seconds: float) -> str:
    highest = max(values)
    width = UNITS / len(values)
    points = ["M0 " + str(HEIGHT)]
    y = float(HEIGHT)
    for number, value in enumerate(values):
        top = HEIGHT - value / highest * (HEIGHT - 4)
        if top != y:
            points.append(f"H{figure(number * width)}V{figure(top)}")
            y = top
    points.append(f"H{figure(UNITS)}V{HEIGHT}z")
    peak = Text(f"peak {size(highest)}/s", f"峰值 {size(highest)}/s")
    return (
        f'<div class="lane chart"><div class="nm"><b>{both(_DIRECTIONS[direction])}</b>'
        f"<i>{both(peak)}</i></div>"
        f'<div class="dr"><svg viewBox="0 0 1000 {HEIGHT}" height="{HEIGHT}" preserveAspectRatio="none">'
        f'<path class="t{direction[0]}" d="{"".join(points)}"/></svg></div></div>'
    )


def _every(line: Timeline) -> List[Tuple[int, TransferSpan]]:
    found = [(node.number, t) for node in line.nodes for start in node.runs for t in start.transfers]
    return sorted(found, key=lambda one: one[1].start)


def _table(every: Sequence[Tuple[int, TransferSpan]]) -> str:
    """Each transfer in a line; where they are many one line for all of a direction, and each by a click."""
    each = [_row(both(_name(transfer)), node, transfer) for node, transfer in every[:MOST_ROWS]]
    if len(every) <= FEW_ROWS:
        return table(_HEAD, each)
    directions = list(dict.fromkeys(transfer.direction for _, transfer in every))[:FEW_ROWS]
    rows = [_all_of([one for one in every if one[1].direction == direction]) for direction in directions]
    left = Text("Each transfer", "逐个传输")
    if len(every) > MOST_ROWS:
        left = Text(f"The first {MOST_ROWS} transfers", f"前 {MOST_ROWS} 个传输")
    return table(_HEAD, rows) + folded(both(left), table(_HEAD, each))


def _all_of(chosen: Sequence[Tuple[int, TransferSpan]]) -> List[str]:
    nodes = ranges([node for node, _ in chosen])[:MOST_ROWS]
    files, moved = sum(t.files for _, t in chosen), sum(t.bytes for _, t in chosen)
    again = str(sum(t.retries for _, t in chosen) or "")
    slowest = duration(max((t.end or t.start) - t.start for _, t in chosen))
    longest = Text(f"up to {slowest}", f"最长 {slowest}")
    return [both(_name(chosen[0][1])), escaped(nodes), str(files), size(moved), both(longest), "", again]


def _name(transfer: TransferSpan) -> Text:
    return _DIRECTIONS.get(transfer.direction, same(transfer.direction))


def _row(name: str, node: int, transfer: TransferSpan) -> List[str]:
    if transfer.end is None:
        cut = Text("not finished", "未完成")
        return [name, str(node), "", size(transfer.bytes), both(cut), "", ""]
    seconds = transfer.end - transfer.start
    speed = f"{size(transfer.bytes / seconds)}/s" if seconds > 0.001 else ""
    again = str(transfer.retries or "")
    return [
        name,
        str(node),
        str(transfer.files),
        size(transfer.bytes),
        escaped(duration(seconds)),
        speed,
        again,
    ]
