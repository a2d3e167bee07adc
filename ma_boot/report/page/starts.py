"""All starts of a job, by its ledger: a table, a drawing, and the node time in one sentence. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import NamedTuple

from ma_boot.report.job_ledger import BEGUN, FAILED, REFUSED, STOPPED, SUCCEEDED, LedgerEntry
from ma_boot.report.page.head import restarts_text
from ma_boot.report.page.lanes import (
    NARROWEST,
    PROCESS_HEIGHT,
    Axis,
    Bar,
    Lane,
    Stroke,
    axis_of,
    figure,
    place,
)
from ma_boot.report.page.language import ROLES, Text, same
from ma_boot.report.result import CAUSE, STOPPED as STOPPED_ROLE, WELL
from ma_boot.report.timeline.all_starts import USEFUL, USES, AllStarts, JobStart
from ma_boot.report.timeline.job_timeline import UNKNOWN
from ma_boot.wording import columns, counted, duration

# Newest starts that are shown.
MOST_STARTS = 40
# Seconds of node time; a smaller part is not mentioned, as it would be shown as 0.0 s.
SHORTEST_PART = 0.05
# Seconds since 1970 in the year 9892: datetime rejects larger values, which a ledger may have.
_LATEST = 250_000_000_000
# Characters of an end in a line of text.
LONGEST_END = 160
STARTS_NAMES = (
    Text("start", "启动"),
    Text("began (UTC)", "开始时间（UTC）"),
    Text("gap", "距上次结束"),
    Text("nodes", "节点数"),
    Text("attempts", "尝试次数"),
    Text("node time", "节点时间"),
    Text("useful", "有效"),
    Text("checkpoint", "检查点"),
    Text("end", "结局"),
)
_USES = {
    "start": Text("start", "启动"),
    "inputs": Text("inputs", "输入"),
    "lost steps": Text("lost steps", "丢失的步"),
    "hangs": Text("attempts that hung", "卡死的尝试"),
    "end": Text("end", "结束"),
}
_ENDS = {
    BEGUN: Text("end unknown", "结局未知"),
    SUCCEEDED: Text("succeeded", "成功"),
    STOPPED: Text("stopped", "被停止"),
    REFUSED: Text("ended at once, as it would fail again", "立即结束：会重复同样的失败"),
    FAILED: Text("failed", "失败"),
}
_ROLES = {SUCCEEDED: WELL, STOPPED: STOPPED_ROLE, FAILED: CAUSE, REFUSED: CAUSE}
# Colours of the part of an attempt after its useful steps, by its end.
_ROLE_NAMES = {**ROLES, CAUSE: Text("lost steps, and end of a failure", "丢失的步，及失败的结束")}
_QUEUED = Text("{time} (queue {queue})", "{time}（排队 {queue}）")
_WITH_QUEUE = Text(
    "; before and between the starts {time}: queue {queue}, image and code {image}",
    "；启动之前及各次启动之间 {time}：排队 {queue}，镜像和代码 {image}",
)
_BETWEEN = Text(
    "; between the starts {time} (queue, image, code)", "；各次启动之间 {time}（排队、镜像、代码）"
)


class StartsSection(NamedTuple):
    """The section on all starts of a job; `left` older ones are not shown."""

    summary: Text
    axis: Axis
    lane: Lane
    legend: list[tuple[str, Text]]
    names: tuple[Text, ...]
    rows: list[tuple[object, ...]]
    left: int


def starts_section(starts: AllStarts) -> StartsSection:
    """Returns the section for a job with at least one start."""
    shown = starts.starts[-MOST_STARTS:]
    began = min(start.began for start in shown)
    seconds = max(0.001, max(start.last.at for start in shown) - began)
    roles = {_role(entry) for start in shown for entry in (*start.attempts, start.last)}
    return StartsSection(
        summary=starts_summary(starts),
        axis=axis_of(seconds),
        lane=Lane(
            node=0,
            role="",
            names=tuple((f"start {start.number}", _role(start.last)) for start in shown),
            phases=(),
            phases_height=0,
            height=len(shown) * PROCESS_HEIGHT,
            bars=tuple(_bar(start, row, began, seconds) for row, start in enumerate(shown)),
            marks=(),
        ),
        legend=[
            ("quiet", Text("before the ranks", "启动 rank 之前")),
            ("ran", Text("useful", "有效")),
            *((role, name) for role, name in _ROLE_NAMES.items() if role in roles),
        ],
        names=STARTS_NAMES,
        rows=[_cells(start) for start in shown],
        left=len(starts.starts) - len(shown),
    )


def starts_lines(starts: AllStarts) -> list[str]:
    """Returns the starts as lines of text, in English."""
    shown = starts.starts[-MOST_STARTS:]
    older = len(starts.starts) - len(shown)
    rows = [[str(cell.en if isinstance(cell, Text) else cell) for cell in _cells(start)] for start in shown]
    table = columns([[name.en.upper() for name in STARTS_NAMES], *rows])
    return [
        starts_summary(starts).en,
        *table,
        *([f"and {older} earlier ones"] if older else []),
    ]


def end_of_starts(starts: AllStarts) -> str:
    """Returns the end of the last start after all restarts, in English."""
    end = _end(starts.starts[-1].last).en
    again = restarts_text(*starts.restarts).en.strip()
    return f"{end}, {again}" if again and ":" in end else f"{end} {again}".rstrip()


def starts_summary(starts: AllStarts) -> Text:
    """Returns the number of starts, and the use of the node time that was paid."""
    spent, count = starts.spent, len(starts.starts)
    paid, useful = sum(spent.values()), spent[USEFUL]
    rest = [use for use in USES if use != USEFUL and spent[use] >= SHORTEST_PART]
    share = f"{useful / paid:.0%}" if paid else "–"
    en = ", ".join(f"{_USES[use].en} {duration(spent[use])}" for use in rest)
    zh = "，".join(f"{_USES[use].zh} {duration(spent[use])}" for use in rest)
    summary = Text(
        f"{counted(count, 'start')}, useful node time {duration(useful)} of {duration(paid)} ({share})"
        + (f"; the rest: {en}" if rest else ""),
        f"共 {count} 次启动，有效节点时间 {duration(useful)} / {duration(paid)}（{share}）"
        + (f"；其余：{zh}" if rest else ""),
    )
    if starts.between < SHORTEST_PART:
        return summary
    between = _BETWEEN.filled(time=duration(starts.between))
    if any(start.queue is not None for start in starts.starts):
        image = duration(starts.between - starts.queued)
        queue = duration(starts.queued)
        between = _WITH_QUEUE.filled(time=duration(starts.between), queue=queue, image=image)
    return Text(summary.en + between.en, summary.zh + between.zh)


def _cells(start: JobStart) -> tuple[object, ...]:
    spent = start.spent
    return (
        str(start.number),
        f"{datetime.fromtimestamp(min(start.began, _LATEST), timezone.utc):%Y-%m-%d %H:%M:%S}",
        _gap(start),
        str(start.last.nodes),
        str(len(start.attempts)),
        duration(sum(spent.values())),
        duration(spent[USEFUL]),
        start.whole,
        _end(start.last),
    )


def _gap(start: JobStart) -> Text:
    if start.before is None:
        return same("")
    time = duration(start.before)
    return same(time) if start.queue is None else _QUEUED.filled(time=time, queue=duration(start.queue))


def _end(last: LedgerEntry) -> Text:
    end = _ENDS[last.key.outcome]
    if last.key.outcome not in (FAILED, REFUSED) or not last.words:
        return end
    where = " ".join(filter(None, [last.words, last.place and f"({last.place})", last.server]))
    return Text(f"{end.en}: {where}", f"{end.zh}：{where}").cut(LONGEST_END)


def _role(entry: LedgerEntry) -> str:
    return _ROLES.get(entry.key.outcome, UNKNOWN)


def _bar(start: JobStart, row: int, began: float, seconds: float) -> Bar:
    """Returns the bar of a start: of each attempt, first the time before its ranks, then the useful part."""
    y = figure((row + 0.5) * PROCESS_HEIGHT)
    strokes = tuple(_strokes(start, y, began, seconds))
    return Bar(f"start {start.number}: {_end(start.last).en}", strokes)


def _strokes(start: JobStart, y: str, began: float, seconds: float) -> Iterator[Stroke]:
    at = start.began
    for entry in start.entries:
        nodes, until = max(1, entry.nodes), max(at, entry.at)
        ready = min(until, at + (entry.start + entry.inputs) / nodes) if entry.key.attempt else until
        useful = min(until, ready + entry.useful / nodes)
        ends = (("quiet", ready), ("ran", useful), (_role(entry), until))
        for kind, end in ends:
            left, right = place(at - began, seconds), place(end - began, seconds)
            is_end = end is until and entry is start.last and kind == ends[-1][0]
            if right - left > 0.05 or is_end:
                left = min(left, right - NARROWEST) if is_end else left
                yield Stroke(kind, f"M{figure(max(0.0, left))} {y}H{figure(max(right, NARROWEST))}")
            at = end
