"""What happened, how processes ended, where they hung, what they printed last, how they were started."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

from ma_boot.report.page.fill import NOTHING, Html, box, fill, folded_table, joined, notice, table
from ma_boot.report.page.language import INCIDENTS, ROLES, Text, code_shown, in_both, ranges, same
from ma_boot.report.result import STOPPED, WELL
from ma_boot.report.timeline.job_timeline import Incident, ProcessSpan, StackGroup, Timeline
from ma_boot.wording import duration

MOST_INCIDENTS = 60
MOST_LOGS = 256
MOST_CHARACTERS = 200  # of a cell
MOST_ENDS = 40  # different ones
MOST_PROCESSES = 64  # in the table with a row for each
MOST_COMMANDS = 4
MOST_STACKS = 24
OPEN_STACKS = 2
_INCIDENTS = (Text("time", "时间"), Text("node", "节点"), Text("event", "事件"), Text("details", "说明"))
_PROCESSES = (
    Text("processes", "进程"),
    Text("nodes", "节点"),
    Text("exit code", "退出码"),
    Text("result", "结果"),
    Text("ran for", "运行时长"),
    Text("first output after", "首次输出耗时"),
)
_ORDER = ("cause", "followed", "unknown", "stopped", "well")
Row = tuple[object, ...]


def incidents_part(timeline: Timeline) -> Html:
    """What happened, oldest first; the same incident on several nodes in one row."""
    alike: dict[tuple[str, str, str], list[Incident]] = {}
    for incident in timeline.all_incidents():
        alike.setdefault((incident.kind, incident.label, incident.text), []).append(incident)
    if not alike:
        return NOTHING
    left = len(alike) - MOST_INCIDENTS
    rows = [_incident_row(members, timeline.began) for members in list(alike.values())[:MOST_INCIDENTS]]
    return fill(
        "incidents",
        heading=Text("What happened", "事件记录"),
        table=table(_INCIDENTS, rows),
        more=fill("more", text=Text(f"and {left} more", f"另有 {left} 条")) if left > 0 else NOTHING,
    )


def _incident_row(members: Sequence[Incident], began: float) -> Row:
    first = members[0]
    moment = datetime.fromtimestamp(began + first.at, timezone.utc)
    after = _spread([member.at for member in members])
    time = fill("clock", after=after, iso=f"{moment:%Y-%m-%dT%H:%M:%SZ}")
    nodes = ranges([member.node for member in members if member.node is not None])
    details = (
        " · ".join(filter(None, (first.label, text)))[:MOST_CHARACTERS] for text in in_both(first.text)
    )
    return time, nodes, INCIDENTS.get(first.kind, same(first.kind)), Text(*details)


def processes_part(timeline: Timeline) -> Html:
    """The ends of all processes: a row for those that ended alike, and one for each if they are few."""
    processes = list(timeline.last_processes())
    if not processes:
        return NOTHING
    alike: dict[tuple[str, int | None, int | None], list[tuple[int, ProcessSpan]]] = {}
    for node, process in processes:
        alike.setdefault((process.role, process.code, process.signal), []).append((node, process))
    ordered = sorted(alike.items(), key=lambda item: _ORDER.index(item[0][0]))[:MOST_ENDS]
    few = len(alike) < len(processes) <= MOST_PROCESSES
    each = [_process_row([process]) for process in processes] if few else []
    return fill(
        "processes",
        heading=Text("Processes", "进程"),
        table=table(_PROCESSES, [_process_row(members) for _, members in ordered]),
        each=folded_table(Text("All processes", "各进程明细"), _PROCESSES, each),
    )


def _process_row(members: Sequence[tuple[int, ProcessSpan]]) -> Row:
    processes = [process for _, process in members]
    first = processes[0]
    return (
        _labels(processes),
        ranges([node for node, _ in members]),
        code_shown(first.code, first.signal),
        fill("role", role=first.role, name=ROLES[first.role]),
        _spread([p.end - p.start for p in processes if p.end is not None]),
        _spread([p.first_output - p.start for p in processes if p.first_output is not None]),
    )


def _labels(processes: Sequence[ProcessSpan]) -> str:
    """`rank 0–7, scheduler`."""
    ranks = ranges([process.rank for process in processes if process.rank is not None])
    others = dict.fromkeys(process.label for process in processes if process.rank is None)
    return ", ".join([*([f"rank {ranks}"] if ranks else []), *others])[:MOST_CHARACTERS]


def _spread(seconds: Sequence[float]) -> str:
    """`0.4 s` or `0.4 s – 12.1 s`."""
    if not seconds:
        return ""
    low, high = duration(min(seconds)), duration(max(seconds))
    return low if low == high else f"{low} – {high}"


def stacks_part(timeline: Timeline) -> Html:
    """Where the processes hung: the stacks that have most processes, of several the latest."""
    every = [stacks for _, run in timeline.all_runs() for stacks in run.stacks]
    if not every:
        return NOTHING
    widest = max(every, key=lambda stacks: (sum(len(group.ranks) for group in stacks.groups), stacks.at))
    who, why = in_both(widest.suspect), in_both(widest.why)
    suspect = fill("suspect", who=who, why=why) if widest.suspect else NOTHING
    left = len(widest.groups) - MOST_STACKS
    more = Text(f"and {left} more places", f"另有 {left} 处")
    groups = (_stack(number, group) for number, group in enumerate(widest.groups[:MOST_STACKS]))
    return fill(
        "stacks",
        heading=Text("Where the processes hung", "进程挂起的位置"),
        suspect=suspect,
        groups=joined(groups, "\n"),
        more=fill("more", text=more) if left > 0 else NOTHING,
    )


def _stack(number: int, group: StackGroup) -> Html:
    who, count = ranges(group.ranks) or "?", len(group.ranks)
    heading = Text(f"rank {who}", f"rank {who}")
    if count > 1:
        heading = Text(f"{count} ranks, same stack: {who}", f"{count} 个 rank，调用栈相同：{who}")
    opened = Html(" open" if number < OPEN_STACKS else "")
    role = "cause" if number == 0 else "stopped"
    return fill("stack", open=opened, role=role, heading=heading, box=box(group.stack))


def start_part(timeline: Timeline) -> Html:
    """The command lines that started the job: that of a rehearsal, those of nodes."""
    of_nodes: dict[str, list[int]] = {}
    for node in timeline.nodes:
        if node.last.command:
            of_nodes.setdefault(node.last.command, []).append(node.number)
    commands = [(Text("on this machine", "在本机"), timeline.command)] if timeline.command else []
    for command, numbers in list(of_nodes.items())[:MOST_COMMANDS]:
        nodes = ranges(numbers)
        commands.append((Text(f"on node {nodes}", f"在节点 {nodes}"), command))
    shown = (fill("command", heading=heading, box=box(command)) for heading, command in commands)
    heading = Text("Started by", "启动方式")
    return fill("start", heading=heading, commands=joined(shown, "\n")) if commands else NOTHING


def log_parts(timeline: Timeline, tails: Mapping[str, str], links: Mapping[str, str]) -> list[Html]:
    """What the processes printed last, those of most interest first; `links` lead to the whole logs."""
    logs = []
    for node, process in _by_interest(timeline):
        tail, file = tails.get(process.log_file, ""), process.log_file
        if tail.strip():
            label, code = process.label, code_shown(process.code, process.signal)
            heading = Text(
                f"{label} · node {node} · exit code {code}", f"{label} · 节点 {node} · 退出码 {code}"
            )
            linked = fill("link", href=links[file], text=file) if links.get(file) else file
            role, opened = process.role, Html(" open" if process.role == "cause" else "")
            id = "log-" + re.sub(r"\W+", "-", label if process.rank is not None else f"node {node} {label}")
            logs.append(
                fill("log", id=id, open=opened, role=role, heading=heading, file=linked, box=box(tail))
            )
    return logs


def logs_part(logs: Sequence[Html], left: int) -> Html:
    """These ends of logs; those of `left` more processes do not fit on the page."""
    if not logs:
        return NOTHING
    more = notice(
        f"The logs of {left} more processes are in the log directory only.",
        f"另有 {left} 个进程的日志未包含在本页，请查看日志目录。",
    )
    return fill("logs", heading=Text("Logs", "日志"), logs=joined(logs, "\n"), more=more if left else NOTHING)


def logs_to_read(timeline: Timeline) -> list[ProcessSpan]:
    """The processes whose logs the page shows, and a node that ended without an event of its end."""
    failed = timeline.outcome.process
    wanted = [process for _, process in _by_interest(timeline)]
    return wanted if failed is None or failed in wanted or not failed.log_file else [failed, *wanted]


def _by_interest(timeline: Timeline) -> list[tuple[int, ProcessSpan]]:
    """The processes with a log: the cause, those that failed after it by time, the others by rank."""

    def order(member: tuple[int, ProcessSpan]) -> tuple[int, float]:
        process = member[1]
        by_rank = process.role in (WELL, STOPPED) or process.end is None
        return _ORDER.index(process.role), (process.rank or 0) if by_rank else (process.end or 0.0)

    logged = [(node, process) for node, process in timeline.last_processes() if process.log_file]
    return sorted(logged, key=order)[:MOST_LOGS]
