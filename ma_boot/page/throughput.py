"""What was downloaded and uploaded: bytes a second over time, and each transfer in a table. Pure."""

from __future__ import annotations

from typing import Iterator, List, Sequence, Tuple

from ma_boot.page.lanes import axis, grid
from ma_boot.page.markup import both, escaped, table
from ma_boot.page.scale import UNITS, figure
from ma_boot.page.values import Timeline, Transfer
from ma_boot.page.words import Text, duration, same, size

BINS = 200
HEIGHT = 72
MOST_ROWS = 40
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


def rates(moved: Sequence[Transfer], seconds: float, bins: int) -> List[float]:
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


def _pieces(transfer: Transfer) -> Iterator[Tuple[float, float, int]]:
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


def _every(line: Timeline) -> List[Tuple[int, Transfer]]:
    found = [(node.number, t) for node in line.nodes for start in node.starts for t in start.transfers]
    return sorted(found, key=lambda one: one[1].start)


def _table(every: Sequence[Tuple[int, Transfer]]) -> str:
    rows = []
    for direction, name in _DIRECTIONS.items():
        chosen = [(node, t) for node, t in every if t.direction == direction]
        if len(chosen) > MOST_ROWS // 2:  # one line for all of them
            nodes = len({node for node, _ in chosen})
            said = Text(f"{len(chosen)} times, {nodes} nodes", f"{len(chosen)} 次，{nodes} 个节点")
            total = sum(t.bytes for _, t in chosen)
            slowest = max((t.end or t.start) - t.start for _, t in chosen)
            longest = Text(f"up to {duration(slowest)}", f"最长 {duration(slowest)}")
            files = str(sum(t.files for _, t in chosen))
            rows.append([both(name), both(said), files, size(total), both(longest), ""])
        else:
            rows += [_row(both(name), node, t) for node, t in chosen]
    others = [(node, t) for node, t in every if t.direction not in _DIRECTIONS][:MOST_ROWS]
    rows += [_row(escaped(t.direction), node, t) for node, t in others]
    head = [
        Text("direction", "方向"), Text("node", "节点"), Text("files", "文件"), Text("size", "大小"),
        Text("time", "用时"), Text("on average", "平均速率"),
    ]  # fmt: skip
    return table(head, rows)


def _row(name: str, node: int, transfer: Transfer) -> List[str]:
    if transfer.end is None:
        cut = Text("not finished", "未完成")
        return [name, str(node), "", size(transfer.bytes), both(cut), ""]
    seconds = transfer.end - transfer.start
    speed = f"{size(transfer.bytes / seconds)}/s" if seconds > 0.001 else ""
    return [name, str(node), str(transfer.files), size(transfer.bytes), both(same(duration(seconds))), speed]
