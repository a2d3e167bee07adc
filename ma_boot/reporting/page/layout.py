"""The parts of the page as HTML, from their values."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Iterable, Sequence, Tuple

from ma_boot.reporting.page.fill import NOTHING, Html, fill, joined
from ma_boot.reporting.page.lanes import Chart, Lane, Scale, Stroke
from ma_boot.reporting.page.language import Text
from ma_boot.reporting.page.sections import Facts, Header, IncidentRow, LogEnd, PlaceRow, ProcessRow
from ma_boot.reporting.page.transfers import TransferSection
from ma_boot.wording import size

_TRANSFERS = (
    Text("direction", "方向"),
    Text("node", "节点"),
    Text("files", "文件数"),
    Text("size", "大小"),
    Text("time", "耗时"),
    Text("average rate", "平均速率"),
    Text("retries", "重试次数"),
)
_INCIDENTS = (Text("time", "时间"), Text("node", "节点"), Text("event", "事件"), Text("details", "说明"))
_PLACES = (
    Text("direction", "方向"),
    Text("node", "节点"),
    Text("name", "名称"),
    Text("on the node", "节点上的路径"),
    Text("in OBS", "OBS 中的位置"),
    Text("files", "文件数"),
    Text("size", "大小"),
)
_ICONS = {"good": "1a7f37", "bad": "c4271b", "open": "b58900"}
_PROCESSES = (
    Text("processes", "进程"),
    Text("nodes", "节点"),
    Text("exit code", "退出码"),
    Text("result", "结果"),
    Text("ran for", "运行时长"),
    Text("first output after", "首次输出耗时"),
)


def head_parts(header: Header) -> dict[str, object]:
    """What the page's head is filled with."""
    code, words = Text("no exit code", "无退出码"), NOTHING
    if header.exit_code is not None:
        code = Text(f"exit code {header.exit_code}", f"退出码 {header.exit_code}")
    if header.last_words:
        heading = Text(f"Last output of {header.process}", f"{header.process} 的最后输出")
        words = fill("last-words", heading=heading, box=box(header.last_words))
    return {
        "tone": header.tone,
        "icon": _ICONS[header.tone],
        "job": header.job,
        "headline": header.headline,
        "said": fill("said", words=header.said) if header.said.en else NOTHING,
        "exit_code": code,
        "meaning": fill("meaning", meaning=header.meaning) if header.meaning else NOTHING,
        "reason": fill("reason", cause=header.cause) if header.cause.en else NOTHING,
        "last_words": words,
        "hints": _hints(header.hints),
    }


def box(text: str) -> Html:
    """A text that opens at its end and can be copied."""
    return fill("box", text=text)


def _hints(hints: Sequence[Text]) -> Html:
    if not hints:
        return NOTHING
    lines = joined((fill("hint", hint=hint) for hint in hints), "\n")
    return fill("hints", heading=Text("What to do", "处理建议"), hints=lines)


def moment_of_day(at: float) -> Html:
    """A moment in seconds since 1970; the script shows it by the reader's clock."""
    moment = datetime.fromtimestamp(at, timezone.utc)
    return fill("moment-of-day", iso=f"{moment:%Y-%m-%dT%H:%M:%SZ}", text=f"{moment:%Y-%m-%d %H:%M:%S} UTC")


def clock(after: str, at: float) -> Html:
    """A time after the beginning of the job, with that of the reader's clock."""
    moment = datetime.fromtimestamp(at, timezone.utc)
    return fill("clock", after=after, iso=f"{moment:%Y-%m-%dT%H:%M:%SZ}")


def facts_part(facts: Facts) -> Html:
    """The job in numbers; what is nothing is left out."""
    found = {
        Text("started", "开始时间"): facts.began and moment_of_day(facts.began),
        Text("duration", "总耗时"): facts.duration,
        Text("nodes", "节点数"): facts.nodes,
        Text("processes", "进程数"): str(facts.processes),
        Text("downloaded", "下载量"): facts.downloaded and size(facts.downloaded),
        Text("uploaded", "上传量"): facts.uploaded and size(facts.uploaded),
        Text("process restarts", "进程重启次数"): facts.restarts,
        Text("reruns of the boot command", "启动命令重复执行次数"): facts.reruns,
        Text("times scheduled", "作业调度次数"): facts.schedules,
    }
    return joined((fill("fact", name=name, value=value) for name, value in found.items() if value), "\n")


def notices(facts: Facts, unreadable: int, earlier_runs: int) -> Html:
    """What the page does not show."""
    found = []
    if facts.missing_nodes:
        en, zh = facts.missing_nodes
        how = "`ma_boot report EVENTS...`"
        found.append(
            Text(
                f"The events of these nodes are missing: {en}. {how} makes one page of all nodes.",
                f"本页缺少以下节点的事件：{zh}。可用 {how} 生成包含所有节点的页面。",
            )
        )
    if unreadable:
        found.append(Text(f"Unreadable lines of events: {unreadable}.", f"有 {unreadable} 行事件无法解析。"))
    if earlier_runs:
        text = f"Earlier runs that are not shown: {earlier_runs}."
        found.append(Text(text, f"更早的 {earlier_runs} 次运行未显示。"))
    return joined(map(_notice, found), "\n")


def _notice(text: Text) -> Html:
    return fill("notice", text=text)


def timeline_part(chart: Chart, scale: Scale, lanes: Sequence[Html], nodes_left: int) -> Html:
    """The lanes of the nodes below an axis; `nodes_left` do not fit on the page."""
    if not lanes and not nodes_left:
        return NOTHING
    rest = Text(
        f"{nodes_left} more nodes do not fit on this page.", f"篇幅所限，另有 {nodes_left} 个节点未显示。"
    )
    return fill(
        "timeline",
        heading=Text("Timeline", "时间线"),
        legend=joined((fill("legend-entry", kind=one.kind, name=one.name) for one in chart.legend), "\n"),
        kind=(" many" if chart.many else "") + (" dense" if chart.dense else ""),
        bar=chart.bar,
        tick=scale.tick,
        axes=joined([axis(scale)] * (2 if chart.many else 1)),
        lanes=joined([*lanes, *([_notice(rest)] if nodes_left else [])], "\n"),
    )


def axis(scale: Scale) -> Html:
    """The moments of the axis."""
    moments = (fill("moment", side=one.side, percent=one.percent, label=one.label) for one in scale.moments)
    return fill("axis", moments=joined(moments))


def lane_part(lane: Lane) -> Html:
    """One node. A page may have hundreds of them: attributes without quotes where they are words of ours."""
    boxes = (fill("phase", **phase._asdict()) for phase in lane.phases)
    phases = fill("phases", height=lane.phases_height, boxes=joined(boxes)) if lane.phases_height else NOTHING
    drawing = NOTHING
    if lane.height:
        bars = (fill("bar", title=bar.title, strokes=_strokes(bar.strokes)) for bar in lane.bars)
        drawing = fill(
            "drawing",
            height=lane.height,
            strips=_strokes(lane.strips),
            bars=joined(bars),
            incidents=joined(fill("incident-stroke", kind=kind, path=path) for kind, path in lane.incidents),
        )
    rows = (fill("lane-row", attributes=_name(row.hit, row.height), text=row.text) for row in lane.rows)
    attributes = _name(lane.hit, lane.name_height)
    return fill(
        "lane", attributes=attributes, node=lane.node, rows=joined(rows), phases=phases, drawing=drawing
    )


def _name(hit: bool, height: int) -> Html:
    return joined(
        [Html(" class=hit" if hit else ""), fill("lane-height", height=height) if height else NOTHING]
    )


def _strokes(strokes: Iterable[Stroke]) -> Html:
    return joined(fill("stroke", kind=kind, path=path) for kind, path in strokes)


def data_part(places: Sequence[PlaceRow], section: TransferSection, scale: Scale) -> Html:
    """The inputs and outputs: where they are, and how they were transferred."""
    if not section.rows and not places:
        return NOTHING
    curves = joined(
        (
            fill("curve", name=one.name, peak=Text(f"peak {one.peak}", f"峰值 {one.peak}"),
                 height=one.height, kind=one.kind, path=one.path)
            for one in section.curves
        ),
        "\n",
    )  # fmt: skip
    return fill(
        "data",
        heading=Text("Inputs and outputs", "输入与输出"),
        places=_table_of_places(places),
        curves=fill("curves", tick=scale.tick, axis=axis(scale), curves=curves) if curves else NOTHING,
        rows=table(_TRANSFERS, section.rows) if section.rows else NOTHING,
        each=_each(section.each_heading, _TRANSFERS, section.each),
    )


def _table_of_places(places: Sequence[PlaceRow]) -> Html:
    """A row for each place; columns that are empty in all of them are left out."""
    shown = [column for column in range(len(_PLACES)) if any(row[column] for row in places)]
    rows = (
        tuple(fill("path", path=row[column]) if column in (3, 4) else row[column] for column in shown)
        for row in places
    )
    return table([_PLACES[column] for column in shown], rows) if places else NOTHING


def incidents_part(rows: Sequence[IncidentRow], left: int) -> Html:
    """What happened, by time; `left` more incidents are not shown."""
    if not rows:
        return NOTHING
    more = fill("more", text=Text(f"and {left} more", f"另有 {left} 条")) if left else NOTHING
    return fill(
        "incidents",
        heading=Text("What happened", "事件记录"),
        table=table(_INCIDENTS, map(_incident_cells, rows)),
        more=more,
    )


def _incident_cells(row: IncidentRow) -> Tuple[object, ...]:
    return clock(row.at, row.clock), row.nodes, row.name, row.text


def processes_part(rows: Sequence[ProcessRow], each: Sequence[ProcessRow]) -> Html:
    """How the processes ended, in groups and one by one."""
    if not rows:
        return NOTHING
    return fill(
        "processes",
        heading=Text("Processes", "进程"),
        table=table(_PROCESSES, map(_process_cells, rows)),
        each=_each(Text("All processes", "各进程明细"), _PROCESSES, list(map(_process_cells, each))),
    )


def _process_cells(row: ProcessRow) -> Tuple[object, ...]:
    result = fill("role", role=row.role, name=row.role_name)
    return row.processes, row.nodes, row.code, result, row.lived, row.first_output


def _each(heading: Text, names: Sequence[Text], rows: Sequence[Tuple[object, ...]]) -> Html:
    return fill("each", heading=heading, table=table(names, rows)) if rows else NOTHING


def table(names: Sequence[Text], rows: Iterable[Tuple[object, ...]]) -> Html:
    """A table with these columns."""
    lines = (fill("row", cells=joined(fill("cell", value=value) for value in row)) for row in rows)
    return fill(
        "table", names=joined(fill("name-of-column", name=name) for name in names), rows=joined(lines, "\n")
    )


def log_part(log: LogEnd) -> Html:
    """The end of one log."""
    file = fill("link", href=log.href, text=log.file) if log.href else log.file
    return fill("log", role=log.role, heading=log.heading, file=file, box=box(log.text))


def start_part(commands: Sequence[Tuple[Text, str]]) -> Html:
    """How the job was started."""
    if not commands:
        return NOTHING
    shown = (fill("command", heading=heading, box=box(command)) for heading, command in commands)
    return fill("start", heading=Text("Started by", "启动方式"), commands=joined(shown, "\n"))


def logs_part(logs: Sequence[Html], left: int) -> Html:
    """The ends of the logs; those of `left` more processes do not fit on the page."""
    if not logs:
        return NOTHING
    rest = Text(
        f"The logs of {left} more processes are in the log directory only.",
        f"另有 {left} 个进程的日志未包含在本页，请查看日志目录。",
    )
    return fill(
        "logs",
        heading=Text("Logs", "日志"),
        logs=joined(logs, "\n"),
        more=_notice(rest) if left else NOTHING,
    )
