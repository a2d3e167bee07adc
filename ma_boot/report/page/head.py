"""The top of the page: how the job ended in a sentence of plain words, why, and the job in numbers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone

from ma_boot.errors import ExitCode, signal_name
from ma_boot.report.explain import last_words, meaning_of, out_of_memory, own_words
from ma_boot.report.hints import hints_for
from ma_boot.report.page.fill import NOTHING, Html, box, fill, joined, notice
from ma_boot.report.page.language import OUR_CODE, OUR_CODES, TRAINING_CODE, Text, in_both, same
from ma_boot.report.timeline.job_timeline import JobOutcome, ProcessSpan, Timeline
from ma_boot.report.timeline.time_spent import COUNTED, time_spent
from ma_boot.wording import Message, duration, in_lines, lines_of, size

MOST_NAMED = 8
MOST_SAID = 400  # characters of a cause's own words
_ICONS = {"good": "1a7f37", "bad": "c4271b", "open": "b58900"}


def head_parts(timeline: Timeline, tails: Mapping[str, str]) -> dict[str, object]:
    """What the top of the page is filled with; `tails` are the ends of the logs, by log file."""
    outcome = timeline.outcome
    code, failed = outcome.exit_code, outcome.process
    tail = tails.get(failed.log_file, "") if failed else ""
    why, means = cause_in_own_words(timeline, tail), meaning(outcome)
    reason = _rest_of_cause(outcome, why.en)
    tone = "open" if code is None else "good" if code == 0 else "bad"
    shown_code = Text("no exit code", "无退出码")
    if code is not None:
        shown_code = Text(f"exit code {code}", f"退出码 {code}")
    output = "\n".join(line[:300] for line in last_words(tail))
    who = failed.label if failed else ""
    heading = Text(f"Last output of {who}", f"{who} 的最后输出")
    hints = joined((fill("hint", hint=in_both(hint).cut(600)) for hint in hints_for(tail)), "\n")
    to_do = Text("What to do", "处理建议")
    return {
        "tone": tone,
        "icon": _ICONS[tone],
        "job": " · ".join(filter(None, [timeline.program, timeline.job])) or "ma_boot",
        "boot": _boot_command(timeline),
        "headline": headline(timeline),
        "cause_words": fill("cause-words", words=why) if why.en else NOTHING,
        "exit_code": shown_code,
        "meaning": fill("meaning", meaning=means) if means else NOTHING,
        "reason": fill("reason", cause=reason) if reason.en else NOTHING,
        "last_words": fill("last-words", heading=heading, box=box(output)) if output else NOTHING,
        "hints": fill("hints", heading=to_do, hints=hints) if hints else NOTHING,
    }


def facts_part(timeline: Timeline) -> Html:
    """The job in numbers; what is nothing is left out."""
    here, expected = len(timeline.nodes), timeline.expected_nodes or 0
    runs = [run for _, run in timeline.all_runs()]
    moved = {"download": 0, "upload": 0}
    for run in runs:
        for transfer in run.transfers:
            moved[transfer.direction] = moved.get(transfer.direction, 0) + transfer.bytes
    hosts = [node.last.host for node in timeline.nodes if node.last.host]
    software = next((run.software for run in reversed(runs) if run.software), {})
    versions = [f"{name} {version}" for name, version in software.items() if name != "commit"]
    nodes = Text(f"{here} of {expected}", f"{here} / {expected}") if expected > here else str(here)
    facts: dict[Text, Text | str | int | float] = {
        Text("started", "开始时间"): timeline.began and _moment_of_day(timeline.began),
        Text("duration", "总耗时"): duration(timeline.seconds),
        Text("node time in the final state", "计入最终状态的节点时间"): time_that_counted(timeline),
        Text("nodes", "节点数"): nodes,
        Text("processes", "进程数"): str(count_of_ranks(timeline)),
        Text("hosts", "主机"): ", ".join(hosts[:MOST_NAMED]) + ("…" if len(hosts) > MOST_NAMED else ""),
        Text("software", "软件版本"): ", ".join(versions),
        Text("commit of the code", "代码提交"): software.get("commit", ""),
        Text("downloaded", "下载量"): moved["download"] and size(moved["download"]),
        Text("uploaded", "上传量"): moved["upload"] and size(moved["upload"]),
        Text("process restarts", "进程重启次数"): len(timeline.restarts),
        Text("reruns of the boot command", "启动命令重复执行次数"): len(runs) - here,
        Text("times scheduled", "作业调度次数"): timeline.schedules if timeline.schedules > 1 else 0,
    }
    return joined(
        (
            fill("fact", name=name, value=value)
            for name, value in facts.items()
            if value and value != same("")
        ),
        "\n",
    )


_PARTS = {
    "lost steps": "丢失的步",
    "not ended": "未结束",
    "start": "启动",
    "waiting": "等待",
    "inputs": "输入",
    "restore": "恢复",
    "restarts": "重启",
    "end": "结束",
}


def time_that_counted(timeline: Timeline) -> Text:
    """How much of the time of all nodes went into the final state, and what took the rest; empty for none."""
    spent = time_spent(timeline)
    paid, counted = sum(spent.values()), spent[COUNTED]
    rest = [part for part in _PARTS if spent[part] >= 0.05]
    if paid < 0.05:
        return same("")
    share = f"{counted / paid:.0%}"
    en = ", ".join(f"{part} {duration(spent[part])}" for part in rest)
    zh = "，".join(f"{_PARTS[part]} {duration(spent[part])}" for part in rest)
    return Text(
        f"{duration(counted)} of {duration(paid)} ({share})" + (f"; the rest: {en}" if rest else ""),
        f"{duration(counted)} / {duration(paid)}（{share}）" + (f"；其余：{zh}" if rest else ""),
    )


def count_of_ranks(timeline: Timeline) -> int:
    """The processes that train: the ranks; all processes where none is known to be one."""
    processes = [process for _, process in timeline.last_processes()]
    return sum(process.rank is not None for process in processes) or len(processes)


def _boot_command(timeline: Timeline) -> Html:
    """The boot command as it belongs into the job form."""
    of_nodes = (run.command for _, run in timeline.all_runs() if run.command)
    command = timeline.boot_command or next(of_nodes, "")
    heading = Text("Boot command for the job form", "作业表单中的启动命令")
    return fill("boot", heading=heading, box=box(command)) if command else NOTHING


def _moment_of_day(at: float) -> Html:
    """A moment in seconds since 1970; the script shows it by the reader's clock."""
    moment = datetime.fromtimestamp(at, timezone.utc)
    return fill("moment-of-day", iso=f"{moment:%Y-%m-%dT%H:%M:%SZ}", text=f"{moment:%Y-%m-%d %H:%M:%S} UTC")


def notices(timeline: Timeline) -> Html:
    """What the page does not show."""
    missing, lines = missing_nodes(timeline), []
    if missing:
        nodes, how = node_list(missing), "`ma_boot report EVENTS...`"
        lines.append(
            notice(
                f"The events of these nodes are missing: {nodes.en}. {how} makes one page of all nodes.",
                f"本页缺少以下节点的事件：{nodes.zh}。可用 {how} 生成包含所有节点的页面。",
            )
        )
    count = timeline.unreadable
    if count:
        lines.append(notice(f"Unreadable lines of events: {count}.", f"有 {count} 行事件无法解析。"))
    runs = timeline.earlier_runs
    if runs:
        lines.append(notice(f"Earlier runs that are not shown: {runs}.", f"更早的 {runs} 次运行未显示。"))
    return joined(lines, "\n")


def headline(timeline: Timeline) -> Text:
    """The end of the job in one sentence: which process or node ended it, and how."""
    outcome = timeline.outcome
    code = outcome.exit_code
    if code is None:
        return _without_end(timeline)
    if code == 0:
        count = count_of_ranks(timeline)
        subject = _subject(timeline)
        who = "its process" if count == 1 else f"all {count} processes"
        return Text(
            f"{subject.en} succeeded: {who} ended with exit code 0.",
            f"{subject.zh}成功：{count} 个进程的退出码均为 0。",
        )
    if outcome.by == "signal":
        return _stopped(timeline, signal_name(outcome.signal or code - 128))
    where = Text("", "")
    if outcome.node is not None:
        where = Text(f" on node {outcome.node}", f"（节点 {outcome.node}）")
    named = outcome.named is not None and outcome.named.rank is not None
    by_rank = outcome.by == "training" or (outcome.by == "node" and named)
    if outcome.process is not None and by_rank:
        return _failed(outcome.process, where)
    hung = outcome.process.label if outcome.process is not None else _hung(timeline)
    if code == ExitCode.HUNG and hung:
        return Text(f"{_capital(hung)}{where.en} hung.", f"{hung}{where.zh}挂起。")
    known = OUR_CODES.get(code) if outcome.by in ("ma_boot", "output") else None
    if known is not None:
        return Text(f"{_capital(known.en)}{where.en}.", f"{known.zh}{where.zh}。")
    if outcome.by == "node" and outcome.label:
        return Text(
            f"{_capital(outcome.label)} failed first, with exit code {code}.",
            f"{outcome.label.replace('node', '节点')} 最先失败，退出码 {code}。",
        )
    return Text(f"The job failed with exit code {code}.", f"作业失败，退出码 {code}。")


def cause_in_own_words(timeline: Timeline, tail: str) -> Text:
    """Why, in the words of whoever knows: of the process that failed first, or of ma_boot's own error.

    `tail` is the end of that process's log, for events that do not have its words.
    """
    outcome = timeline.outcome
    named = outcome.named
    if outcome.exit_code in (None, 0) or (outcome.by == "signal" and named is None):
        return same("")
    if outcome.process is not None and outcome.process.oom:  # which its log knows nothing of
        return in_both(out_of_memory(outcome.process.oom)).cut(MOST_SAID)
    if named is not None and outcome.by in ("training", "node", "signal"):
        in_headline = outcome.process is not None and outcome.by != "signal"
        return in_both(named.in_words if in_headline else str(named)).cut(MOST_SAID)
    if outcome.by == "training" or outcome.words:
        return in_both(outcome.words or (own_words(tail) if tail else None) or "").cut(MOST_SAID)
    stacks = [suspected for _, run in timeline.all_runs() for suspected in run.stacks if suspected.suspect]
    if outcome.exit_code == ExitCode.HUNG and stacks:
        return in_both(Message.of("{} {}", stacks[-1].suspect, stacks[-1].why)).cut(MOST_SAID)
    first, *items = lines_of(outcome.cause)
    shown = in_both(first).cut(MOST_SAID)
    if not first.endswith(":") or not items:
        return shown
    item = items[0].strip(" -")[:MOST_SAID]
    return Text(f"{shown.en} {item}", f"{shown.zh.rstrip(':：')}：{item}")


def _rest_of_cause(outcome: JobOutcome, words: str) -> Text:
    """What the cause says beyond the headline."""
    first, *details = lines_of(outcome.cause)
    shown = bool(words) and (words in first or words.startswith(first))
    stopped = outcome.by == "signal" and ";" not in first
    known = shown or stopped or first == "success" or outcome.by == "training"
    if shown and details and details[0].strip(" -") in words:
        del details[0]
    return in_both(in_lines(details if known else [first, *details]))


def _failed(process: ProcessSpan, where: Text) -> Text:
    after, who = duration((process.end or process.start) - process.start), _capital(process.label)
    if process.code == 0:
        return Text(
            f"{who}{where.en} ended first, with exit code 0 after {after}: the others lost it.",
            f"{process.label}{where.zh}最先退出（运行 {after}，退出码 0），其他进程随后失去连接。",
        )
    if process.stopped or process.code is None:
        return Text(
            f"{who}{where.en} failed first: it raised an exception, and was stopped after {after}.",
            f"{process.label}{where.zh}最先失败：运行 {after} 后抛出异常，随后被停止。",
        )
    end = Text(f"ended with exit code {process.code}", f"退出，退出码 {process.code}")
    if process.oom:
        end = Text("was killed by the kernel, out of memory,", "因内存不足被内核终止")
    elif process.signal:
        name = signal_name(process.signal)
        end = Text(f"was killed by {name}", f"被 {name} 终止")
    return Text(
        f"{who}{where.en} failed first: it {end.en} after {after}.",
        f"{process.label}{where.zh}最先失败：运行 {after} 后{end.zh}。",
    )


def _stopped(timeline: Timeline, signal: str) -> Text:
    """Names the nodes without an end, too: the loss of one may be why the others were stopped."""
    subject, silent = _subject(timeline), _silent_nodes(timeline)
    nodes, several = node_list(silent), "s" if len(silent) > 1 else ""
    more = Text(f"; node{several} {nodes.en} recorded no end", f"；节点 {nodes.zh} 没有结束记录")
    en, zh = more if silent else same("")
    was = "were" if subject.en.startswith("Nodes") else "was"
    return Text(
        f"{subject.en} {was} stopped by {signal} from outside{en}.",
        f"{subject.zh}被外部信号 {signal} 停止{zh}。",
    )


def _without_end(timeline: Timeline) -> Text:
    silent = _silent_nodes(timeline)
    if not timeline.nodes:
        return Text("There are no events of any node.", "没有任何节点的事件。")
    some = ", ".join(map(str, silent[:MOST_NAMED])) + ("…" if len(silent) > MOST_NAMED else "")
    nodes = f"node {some}" if len(silent) == 1 else f"nodes {some}"
    return Text(
        f"How the job ended is unknown: {nodes} recorded no end (still running, killed or lost).",
        f"结局未知：节点 {some} 没有结束记录（仍在运行、被强制终止或已失联）。",
    )


def _hung(timeline: Timeline) -> str:
    """The processes that hung last on the node that ended the job."""
    node = next((node for node in timeline.nodes if node.number == timeline.outcome.node), None)
    hangs = [incident.label for incident in node.last.incidents if incident.kind == "hang"] if node else []
    return hangs[-1] if hangs else ""


def _silent_nodes(timeline: Timeline) -> list[int]:
    return [node.number for node in timeline.nodes if node.last.exit_code is None]


def meaning(outcome: JobOutcome) -> Text | None:
    """The meaning of the exit code, and whose it is; None without one."""
    code = outcome.exit_code
    if code is None:
        return None
    if outcome.process is not None and outcome.process.oom:
        return Text("OOM-killed by the kernel", "内存不足，被内核 OOM 终止")
    if outcome.by == "signal":
        return Text("128 + the number of the stop signal", "128 + 停止信号的编号")
    if outcome.by in ("training", "node"):
        known = meaning_of(code, outcome.process.signal if outcome.process is not None else None)
        return in_both(known) if known is not None else TRAINING_CODE
    return OUR_CODE if outcome.by in ("ma_boot", "output") else OUR_CODES.get(code)


def missing_nodes(timeline: Timeline) -> list[int]:
    """The nodes of the job without events."""
    here = {node.number for node in timeline.nodes}
    return [number for number in range(min(timeline.expected_nodes or 0, 4096)) if number not in here]


def node_list(numbers: list[int]) -> Text:
    """The first numbers, and how many more there are."""
    some = ", ".join(map(str, numbers[:MOST_NAMED]))
    rest = len(numbers) - MOST_NAMED
    return Text(f"{some} and {rest} more", f"{some} 等 {len(numbers)} 个") if rest > 0 else same(some)


def _subject(timeline: Timeline) -> Text:
    """The job, or the nodes whose events are here."""
    if not missing_nodes(timeline):
        return Text("The job", "作业")
    here = node_list([node.number for node in timeline.nodes])
    return Text(f"Node{'s' if len(timeline.nodes) > 1 else ''} {here.en}", f"节点 {here.zh} ")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
