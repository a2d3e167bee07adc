"""Incidents, ends of processes, stacks of a hang, ends of logs and command lines as values. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import NamedTuple

from markupsafe import Markup

from ma_boot.report.page.language import INCIDENTS, ROLES, Text, code_shown, in_both, ranges, same
from ma_boot.report.result import STOPPED, WELL
from ma_boot.report.timeline.job_timeline import Incident, ProcessSpan, StackGroup, StuckCollective, Timeline
from ma_boot.wording import duration

MOST_INCIDENTS = 60
MOST_LOGS = 256
# Seconds between the clocks of nodes, and between a stop and its effect on another node.
MOST_SKEW = 5.0
# Of a cell.
MOST_CHARACTERS = 200
# Rows of the table of processes, each for those with the same role, exit code and signal.
MOST_ENDS = 40
# More processes than these have no table with a row for each.
MOST_PROCESSES = 64
MOST_COMMANDS = 4
MOST_STACKS = 24
# Stacks that are unfolded: the odd ones come first.
OPEN_STACKS = 2
INCIDENT_NAMES = (Text("time", "时间"), Text("node", "节点"), Text("event", "事件"), Text("details", "说明"))
COLLECTIVE_NAMES = (
    Text("group", "通信组"),
    Text("number", "序号"),
    Text("collective", "集合通信"),
    Text("ranks in it", "已进入的 rank"),
    Text("ranks not in it", "未进入的 rank"),
    Text("line", "代码行"),
    Text("differences", "差异"),
)
PROCESS_NAMES = (
    Text("processes", "进程"),
    Text("nodes", "节点"),
    Text("exit code", "退出码"),
    Text("result", "结果"),
    Text("ran for", "运行时长"),
    Text("first output after", "首次输出耗时"),
)
# Roles of processes, the most interesting one first.
_ORDER = ("cause", "followed", "doubtful", "unknown", "stopped", "well")
Row = tuple[object, ...]


class Stack(NamedTuple):
    """A stack with the ranks that have it."""

    heading: Text
    stack: str


class Stacks(NamedTuple):
    """The stacks of a hang, the first `open` of them unfolded, and the number of those `left` out."""

    suspect: Text
    why: Text
    collectives: list[Row]
    groups: list[Stack]
    open: int
    left: int


class LogEnd(NamedTuple):
    """The end of a process's log; `id` names it in links, `link` is the URL of the whole log or empty."""

    id: str
    role: str
    heading: Text
    file: str
    link: str
    text: str


def incidents_of(timeline: Timeline) -> tuple[list[Row], int]:
    """Returns the incidents, each after its reason, and the number of those that are left out.

    The same incident of an attempt on several nodes is one row.
    """
    alike: dict[tuple[int, str, str, str], list[Incident]] = {}
    attempts: dict[int | None, int] = {}
    reruns = [
        Incident("start", run.start, node.number, "", "") for node in timeline.nodes for run in node.runs[1:]
    ]
    for incident in in_causal_order([*timeline.all_incidents(), *reruns]):
        node, kind = incident.node, incident.kind
        # All nodes restart together: each has the restarts of the job.
        attempt = attempts[node] = attempts.get(node, 0) + (kind in ("restart", "start"))
        if node is None:
            attempt = max(attempts.values())
        alike.setdefault((attempt, kind, incident.label, incident.text), []).append(incident)
    rows = [_incident_row(members, timeline) for members in list(alike.values())[:MOST_INCIDENTS]]
    return rows, len(alike) - len(rows)


def in_causal_order(incidents: Sequence[Incident]) -> list[Incident]:
    """Sorts incidents by time, and stops after their reasons on other nodes, whose clocks may differ.

    A node that is stopped for another one names it; a signal to a rehearsed node is sent by the rehearsal.
    """
    stops = [incident for incident in incidents if incident.kind == "stop"]

    def moment(incident: Incident) -> tuple[float, bool]:
        named = re.match(r"node (\d+)\b", incident.text)
        if incident.kind != "stop":
            return incident.at, False
        if named and incident.node != int(named.group(1)):
            reasons = [stop for stop in stops if stop.node == int(named.group(1))]
        elif incident.node is not None and incident.text.endswith(" received"):
            reasons = [stop for stop in stops if stop.node is None]
        else:
            reasons = []
        near = min((stop.at for stop in reasons), key=lambda at: abs(at - incident.at), default=incident.at)
        return (near, True) if 0 < near - incident.at <= MOST_SKEW else (incident.at, False)

    return sorted(incidents, key=moment)


def _nodes_of(members: Sequence[Incident], timeline: Timeline) -> str:
    """Formats the nodes of incidents that are one row; for one of the job, those that it names, or all."""
    known = [member.node for member in members if member.node is not None]
    first = members[0]
    named = re.search(r"\bnode[ =](\d+)\b", f"{first.label} {first.text}")
    if not known and named:
        known = [int(named.group(1))]
    if not known:
        ran = timeline.last_processes()
        known = [node for node, process in ran if process.label == first.label]
    return ranges(known or [node.number for node in timeline.nodes])


def _incident_row(members: Sequence[Incident], timeline: Timeline) -> Row:
    first = members[0]
    moment = datetime.fromtimestamp(timeline.began + first.at, timezone.utc)
    after = _spread([member.at for member in members])
    # A script fills in the time of day by the reader's clock.
    clock = Markup('{} <time data-as="clock" datetime="{:%Y-%m-%dT%H:%M:%SZ}"></time>').format(after, moment)
    details = (_cut(" · ".join(filter(None, (first.label, text)))) for text in in_both(first.text))
    return clock, _nodes_of(members, timeline), INCIDENTS.get(first.kind, same(first.kind)), Text(*details)


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def processes_of(timeline: Timeline) -> tuple[list[Row], list[Row]]:
    """Returns a row for all processes that ended alike; and one for each process if they are few."""
    processes = list(timeline.last_processes())
    alike: dict[tuple[str, int | None, int | None], list[tuple[int, ProcessSpan]]] = {}
    for node, process in processes:
        alike.setdefault((process.role, process.code, process.signal), []).append((node, process))
    ordered = sorted(alike.items(), key=lambda item: _ORDER.index(item[0][0]))[:MOST_ENDS]
    few = len(alike) < len(processes) <= MOST_PROCESSES
    each = [_process_row([process]) for process in processes] if few else []
    return [_process_row(members) for _, members in ordered], each


def _process_row(members: Sequence[tuple[int, ProcessSpan]]) -> Row:
    processes = [process for _, process in members]
    first = processes[0]
    return (
        _labels(processes),
        ranges([node for node, _ in members]),
        code_shown(first.code, first.signal),
        Markup('<b class="{}"></b>{}').format(first.role, ROLES[first.role]),
        _spread([p.end - p.start for p in processes if p.end is not None]),
        _spread([p.first_output - p.start for p in processes if p.first_output is not None]),
    )


def _labels(processes: Sequence[ProcessSpan]) -> str:
    """Formats the labels of processes: `rank 0–7, scheduler`."""
    ranks = ranges([process.rank for process in processes if process.rank is not None])
    others = dict.fromkeys(process.label for process in processes if process.rank is None)
    return ", ".join([*([f"rank {ranks}"] if ranks else []), *others])[:MOST_CHARACTERS]


def _spread(seconds: Sequence[float]) -> str:
    """Formats the shortest and the longest of several times: `0.4 s` or `0.4 s – 12.1 s`."""
    if not seconds:
        return ""
    low, high = duration(min(seconds)), duration(max(seconds))
    return low if low == high else f"{low} – {high}"


def _collective_row(stuck: StuckCollective) -> Row:
    differs = " · ".join(f"{ranks}: {what}" for ranks, what in stuck.differs)[:MOST_CHARACTERS]
    return stuck.group, stuck.seq, stuck.op, stuck.inside, stuck.outside or "–", stuck.place, differs


def stacks_of(timeline: Timeline) -> Stacks | None:
    """Returns the stacks of the hang with most processes, of several the latest; None without a hang."""
    every = [stacks for _, run in timeline.all_runs() for stacks in run.stacks]
    if not every:
        return None
    widest = max(every, key=lambda stacks: (sum(len(group.ranks) for group in stacks.groups), stacks.at))
    return Stacks(
        suspect=in_both(widest.suspect),
        why=in_both(widest.why),
        collectives=[_collective_row(stuck) for stuck in widest.stuck],
        groups=[_stack(group) for group in widest.groups[:MOST_STACKS]],
        open=OPEN_STACKS,
        left=len(widest.groups) - MOST_STACKS,
    )


def _stack(group: StackGroup) -> Stack:
    who, count = ranges(group.ranks) or "?", len(group.ranks)
    if count > 1:
        return Stack(
            Text(f"{count} ranks, same stack: {who}", f"{count} 个 rank，调用栈相同：{who}"), group.stack
        )
    return Stack(same(f"rank {who}"), group.stack)


def commands_of(timeline: Timeline) -> list[tuple[Text, str]]:
    """Returns command lines: the one for the job form and that of a rehearsal, then those of nodes."""
    of_nodes: dict[str, list[int]] = {}
    for node in timeline.nodes:
        if node.last.command:
            of_nodes.setdefault(node.last.command, []).append(node.number)
    of_job = (
        (Text("Boot command for the job form", "训练作业参数中的启动命令"), timeline.boot_command),
        (Text("on this machine", "在本机"), timeline.command),
    )
    commands = [(heading, command) for heading, command in of_job if command]
    for command, numbers in list(of_nodes.items())[:MOST_COMMANDS]:
        nodes = ranges(numbers)
        commands.append((Text(f"on node {nodes}", f"在节点 {nodes}"), command))
    return commands


def logs_of(timeline: Timeline, tails: Mapping[str, str], links: Mapping[str, str]) -> list[LogEnd]:
    """Returns the ends of logs, the most interesting first; `links` are URLs of the whole logs."""
    return [
        _log(node, process, tails[process.log_file], links.get(process.log_file, ""))
        for node, process in _by_interest(timeline)
        if tails.get(process.log_file, "").strip()
    ]


def _log(node: int, process: ProcessSpan, tail: str, link: str) -> LogEnd:
    label, code = process.label, code_shown(process.code, process.signal)
    # Only the labels of ranks are unique in the job.
    unique = label if process.rank is not None else f"node {node} {label}"
    return LogEnd(
        id="log-" + re.sub(r"\W+", "-", unique),
        role=process.role,
        heading=Text(f"{label} · node {node} · exit code {code}", f"{label} · 节点 {node} · 退出码 {code}"),
        file=process.log_file,
        link=link,
        text=tail,
    )


def logs_to_read(timeline: Timeline) -> list[ProcessSpan]:
    """Returns the processes with logs on the page, and a rehearsed node that left no event of its end."""
    failed = timeline.outcome.process
    wanted = [process for _, process in _by_interest(timeline)]
    return wanted if failed is None or failed in wanted or not failed.log_file else [failed, *wanted]


def _by_interest(timeline: Timeline) -> list[tuple[int, ProcessSpan]]:
    """Returns the processes with a log: the root cause, later failures by time, the others by rank."""

    def order(member: tuple[int, ProcessSpan]) -> tuple[int, float]:
        process = member[1]
        by_rank = process.role in (WELL, STOPPED) or process.end is None
        return _ORDER.index(process.role), (process.rank or 0) if by_rank else (process.end or 0.0)

    logged = [(node, process) for node, process in timeline.last_processes() if process.log_file]
    return sorted(logged, key=order)[:MOST_LOGS]
