"""The parts of the page that are words: the verdict, what happened, the processes, the ends of logs. Pure."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ma_boot.reporting import duration, hints_for, last_words, size
from ma_boot.reporting.page.headline import headline, meaning, missing_nodes, node_list
from ma_boot.reporting.page.markup import both, escaped, folded, ranges, table
from ma_boot.reporting.page.words import MARKS, PARTS, Text, code_shown, same
from ma_boot.reporting.timeline import STOPPED, WELL, Incident, JobOutcome, ProcessSpan, Timeline

MOST_MARKS = 60
MOST_LOGS = 64
MOST_CHARACTERS = 120  # of a cell
MOST_GROUPS = 40
MOST_PROCESSES = 64  # in the table that names each of them
_ORDER = ("cause", "followed", "unknown", "stopped", "well")


def verdict(line: Timeline, tails: Mapping[str, str]) -> str:
    """The top of the page: the cause in plain words, the exit code and what it means, the last words."""
    found = line.outcome
    code = found.exit_code
    tone = "open" if code is None else "good" if code == 0 else "bad"
    badge = Text("no exit code", "无退出码") if code is None else Text(f"exit code {code}", f"退出码 {code}")
    means = meaning(found)
    explained = f'<span class="means">{both(means)}</span>' if means else ""
    words, advice = _last_words(found, tails)
    cause = escaped(found.cause) if found.cause and found.cause != "success" else ""
    told = f'<pre class="cause">{cause}</pre>' if cause else ""
    return (
        f'<header class="{tone}"><p class="job">{escaped(line.job) or "ma_boot"}</p>'
        f"<h1>{both(headline(line))}</h1>"
        f'<p class="code"><strong>{both(badge)}</strong>{explained}</p>{told}{words}{advice}</header>'
    )


def _last_words(found: JobOutcome, tails: Mapping[str, str]) -> Tuple[str, str]:
    """What the failing process printed last, and advice where it is known."""
    tail = tails.get(found.process.log_file, "") if found.process else ""
    if not tail or found.process is None:
        return "", ""
    lines = "\n".join(text[:300] for text in last_words(tail))
    label = found.process.label
    heading = Text(f"The last words of {label}", f"{label} 的最后输出")
    words = folded(both(heading), f"<pre>{escaped(lines)}</pre>", opened=True)
    advised = hints_for(tail)
    if not advised:
        return words, ""
    items = "".join(f"<li>{escaped(text[:600])}</li>" for text in advised)
    return words, f'<div class="advice"><b>{both(Text("What to do", "处理建议"))}</b><ul>{items}</ul></div>'


def facts(line: Timeline) -> str:
    """The job in numbers."""
    began = datetime.fromtimestamp(line.began, timezone.utc)
    stamp = f"<time>{began:%Y-%m-%d %H:%M:%S} UTC</time>" if line.began else ""
    every = [t for node in line.nodes for start in node.runs for t in start.transfers]
    restarts = sum(mark.kind == "restart" for mark in line.all_incidents())
    again = sum(len(node.runs) - 1 for node in line.nodes)
    entries = [
        (Text("began", "开始"), stamp),
        (Text("took", "历时"), escaped(duration(line.seconds))),
        (Text("nodes", "节点"), _nodes(line)),
        (Text("processes", "进程"), str(sum(1 for _ in line.last_processes()))),
        (Text("downloaded", "已下载"), _moved(sum(t.bytes for t in every if t.direction == "download"))),
        (Text("uploaded", "已上传"), _moved(sum(t.bytes for t in every if t.direction == "upload"))),
        (Text("restarts of the processes", "进程重启"), str(restarts or "")),
        (Text("further starts of the boot command", "启动命令再次运行"), str(again or "")),
    ]
    items = "".join(f"<div><dt>{both(name)}</dt><dd>{value}</dd></div>" for name, value in entries if value)
    return f'<dl class="facts">{items}</dl>{_notices(line)}'


def _nodes(line: Timeline) -> str:
    here, expected = len(line.nodes), line.expected_nodes
    return (
        both(Text(f"{here} of {expected}", f"{here} / {expected}")) if (expected or 0) > here else str(here)
    )


def _moved(count: int) -> str:
    return escaped(size(count)) if count else ""


def _notices(line: Timeline) -> str:
    """What the reader should know about the page itself."""
    found: List[Text] = []
    missing = missing_nodes(line)
    if missing and line.nodes:
        which = node_list(missing)
        found.append(
            Text(
                f"The events of these nodes are not in this page: {which.en}. "
                "`ma_boot report EVENTS...` makes one page of all nodes.",
                f"本页不含以下节点的事件：{which.zh}。可用 `ma_boot report EVENTS...` 合并所有节点。",
            )
        )
    if line.unreadable:
        count = line.unreadable
        found.append(Text(f"Lines that could not be read: {count}.", f"有 {count} 行事件无法读取。"))
    earlier = sum(node.earlier for node in line.nodes)
    if earlier:
        found.append(
            Text(f"Earlier starts that are not drawn: {earlier}.", f"更早的 {earlier} 次启动未绘出。")
        )
    return "".join(f'<p class="notice">{both(text)}</p>' for text in found)


def happenings(line: Timeline) -> str:
    """Restarts, stops, hangs, faults and the like, in order; what is alike on several nodes in one line."""
    alike: Dict[Tuple[str, str, str], List[Incident]] = {}
    for mark in line.all_incidents():
        alike.setdefault((mark.kind, mark.label, mark.text), []).append(mark)
    marks = list(alike.values())
    rows = []
    for members in marks[:MOST_MARKS]:
        mark = members[0]
        kind = both(MARKS.get(mark.kind, same(mark.kind)))
        said = " · ".join(filter(None, (mark.label, mark.text)))
        nodes = ranges([one.node for one in members if one.node is not None])
        rows.append([_spread([one.at for one in members]), nodes, kind, escaped(said[:MOST_CHARACTERS])])
    head = [Text("at", "时刻"), Text("node", "节点"), Text("what", "事件"), Text("more", "说明")]
    drawn = table(head, rows)
    if len(marks) > MOST_MARKS:
        more = len(marks) - MOST_MARKS
        drawn += f"<p>{both(Text(f'and {more} more', f'另有 {more} 条'))}</p>"
    return drawn


def processes(line: Timeline) -> str:
    """The ends of all processes: those that ended alike in one line, and each where they are few."""
    processes = list(line.last_processes())
    groups: Dict[Tuple[str, Optional[int], Optional[int]], List[Tuple[int, ProcessSpan]]] = {}
    for node, life in processes:
        groups.setdefault((life.role, life.code, life.signal), []).append((node, life))
    ordered = sorted(groups.items(), key=lambda group: _ORDER.index(group[0][0]))[:MOST_GROUPS]
    head = [
        Text("processes", "进程"), Text("nodes", "节点"), Text("exit code", "退出码"),
        Text("what it was", "角色"), Text("lived", "存活"), Text("first output after", "首次输出"),
    ]  # fmt: skip
    drawn = table(head, [_group(members) for _, members in ordered])
    if len(groups) < len(processes) <= MOST_PROCESSES:
        each = table(head, [_group([one]) for one in processes])
        drawn += folded(both(Text("Each process", "逐个进程")), each)
    return drawn


def _group(members: Sequence[Tuple[int, ProcessSpan]]) -> List[str]:
    life = members[0][1]
    lived = [one.end - one.start for _, one in members if one.end is not None]
    spoke = [one.first_output - one.start for _, one in members if one.first_output is not None]
    code = "?" if life.code is None else code_shown(life.code, life.signal or 0)
    part = f'<b class="l{life.role[0]}"></b>{both(PARTS[life.role])}'
    nodes = ranges([node for node, _ in members])
    return [named([one for _, one in members]), nodes, escaped(code), part, _spread(lived), _spread(spoke)]


def named(members: Sequence[ProcessSpan]) -> str:
    """`rank 0-7, scheduler`."""
    found = ranges([life.rank for life in members if life.rank is not None])
    others = [life.label for life in members if life.rank is None]
    return escaped(", ".join([*([f"rank {found}"] if found else []), *others[:8]])[:MOST_CHARACTERS])


def _spread(seconds: Sequence[float]) -> str:
    """`0.4 s` or `0.4-12.1 s`."""
    if not seconds:
        return ""
    low, high = duration(min(seconds)), duration(max(seconds))
    return escaped(low if low == high else f"{low} – {high}")


def ends_of_logs(line: Timeline, tails: Mapping[str, str], room: int) -> str:
    """What the processes printed last, to open by a click, as far as `room` bytes hold it."""
    found: List[str] = []
    for node, life in wanted_logs(line):
        tail = tails.get(life.log_file, "")
        if not tail.strip():
            continue
        code = "?" if life.code is None else code_shown(life.code, life.signal or 0)
        where = Text(
            f"{life.label} · node {node} · exit code {code}", f"{life.label} · 节点 {node} · 退出码 {code}"
        )
        summary = f'<b class="l{life.role[0]}"></b>{both(where)}'
        part = folded(summary, f"<p class=file>{escaped(life.log_file)}</p><pre>{escaped(tail)}</pre>")
        room -= len(part.encode("utf-8"))
        if room < 0:
            break
        found.append(part)
    if not found:
        return ""
    drawn = f'<div class="logs">{"".join(found)}</div>'
    left = sum(1 for _ in line.last_processes()) - len(found)
    if left:
        text = Text(
            f"{left} further processes: their ends are not in this page, but in the log directory.",
            f"另有 {left} 个进程的日志不在本页，请查看日志目录。",
        )
        drawn += f'<p class="notice">{both(text)}</p>'
    return drawn


def read_logs(line: Timeline) -> List[ProcessSpan]:
    """Whose logs are to be read: those of interest, and that of a node which ended without a word."""
    life = line.outcome.process
    wanted = [life for _, life in wanted_logs(line)]
    return wanted if life is None or life in wanted or not life.log_file else [life, *wanted]


def wanted_logs(line: Timeline) -> List[Tuple[int, ProcessSpan]]:
    """The processes in the order in which their logs are of interest: the cause, then others that failed."""

    def order(one: Tuple[int, ProcessSpan]) -> Tuple[int, float]:
        life = one[1]
        by_rank = life.role in (WELL, STOPPED) or life.end is None
        return _ORDER.index(life.role), (life.rank or 0) if by_rank else (life.end or 0.0)

    return sorted(((node, life) for node, life in line.last_processes() if life.log_file), key=order)[
        :MOST_LOGS
    ]
