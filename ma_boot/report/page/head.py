"""The top of the page: the end of the job in one sentence, its cause, and the job in numbers. Pure.

Each sentence is a constant with both languages beside each other; `Text.filled` fills its gaps.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timezone
from typing import NamedTuple

from markupsafe import Markup

from ma_boot.errors import ExitCode, signal_name
from ma_boot.report.doubt import REMEDY
from ma_boot.report.explain import meaning_of, out_of_memory
from ma_boot.report.failure import last_words, own_words
from ma_boot.report.hints import hints_for
from ma_boot.report.page.language import OUR_CODE, OUR_CODES, TRAINING_CODE, Text, in_both, same
from ma_boot.report.timeline.job_timeline import BootRun, JobOutcome, ProcessSpan, Timeline
from ma_boot.report.timeline.time_spent import COUNTED, time_spent
from ma_boot.wording import Message, counted, duration, in_lines, lines_of, size

_AGAIN = Text(" after {count}{in_place}", "在 {number} 次重启{in_place}后")
_IN_PLACE = Text(" ({number} in place)", "（其中 {number} 次原地重启）")
# Metrics of ranks that come with a step.
STEPS = ("loss", "step_time")
# Nodes or hosts that are listed by name.
MOST_NAMED = 8
# Characters of the cause, of a hint, and of a line of output.
LONGEST_CAUSE = 400
LONGEST_LINE = 300
# A job of more nodes than these is not checked for nodes without events.
MOST_NODES = 4096
# Seconds; the useful node time of a shorter job is mostly the time to start.
SHORT_JOB = 60.0
# Seconds; a smaller part of the node time is not mentioned, as it would be shown as 0.0 s.
SHORTEST_PART = 0.05
# Colours of the icon of the browser's tab, by the tone of the page.
_ICONS = {"good": "1a7f37", "bad": "c4271b", "open": "b58900", "doubtful": "b58900"}

USEFUL_TIME = Text("useful node time", "有效节点时间")
_NO_CODE = Text("no exit code", "无退出码")
_CODE = Text("exit code {code}", "退出码 {code}")
_LAST_OUTPUT = Text("Last output of {who}", "{who} 的最后输出")

_SUCCEEDED = Text(
    "{subject} succeeded{again}: {who} ended with exit code 0.",
    "{subject}{again}成功：{count} 个进程的退出码均为 0。",
)
_DOUBTFUL = Text(
    "{subject} ended with exit code 0, but a process of the training failed{where}.",
    "{subject}的退出码为 0，但训练中有一个进程失败{where}。",
)
_ENDED_EARLY = Text(
    "{who}{where} ended first{again}, with exit code 0 after {after}: the other ranks lost it.",
    "{who}{where}{again}最先退出（运行 {after}，退出码 0），其他进程随后失去连接。",
)
_RAISED = Text(
    "{who}{where} failed first{again}: it raised an exception, and was stopped after {after}.",
    "{who}{where}{again}最先失败：运行 {after} 后抛出异常，随后被停止。",
)
_FAILED = Text(
    "{who}{where} failed first{again}: it {end} after {after}.",
    "{who}{where}{again}最先失败：运行 {after} 后{end}。",
)
_HIDES = Text(
    "the exit code of the command, which hides that of a process", "命令自身的退出码，掩盖了某个进程的退出码"
)
_HUNG = Text("{who}{where} hung{again}.", "{who}{where}{again}卡死。")
_OUR_END = Text("{meaning}{where}.", "{meaning}{where}。")
_NODE_FAILED = Text("{who} failed first, with exit code {code}.", "{who} 最先失败，退出码 {code}。")
_JOB_FAILED = Text("The job failed with exit code {code}.", "作业失败，退出码 {code}。")
_STOPPED = Text(
    "{subject} {was} stopped by {signal}{meanwhile}{again}{more}.",
    "{meanwhile}{subject}{again}被{signal}停止{more}。",
)
_CTRL_C = Text("Ctrl-C", " Ctrl-C ")
_SIGNAL = Text("{signal} from outside", "外部信号 {signal} ")
_WHILE_HUNG = Text(" while {who} hung", "在 {who} 卡死期间，")
_AND_NO_END = Text("; {node} {names} recorded no end", "；节点 {names} 没有结束记录")
_NO_EVENTS = Text("There are no events of any node.", "没有任何节点的事件。")
_END_UNKNOWN = Text(
    "How the job ended is unknown: {node} {names} recorded no end (still running, killed or lost).",
    "结局未知：节点 {names} 没有结束记录（仍在运行、被强制终止或已失联）。",
)
_ON_NODE = Text(" on node {node}", "（节点 {node}）")

_MISSING_NODES = Text(
    "The events of these nodes are missing: {nodes}. `ma_boot report EVENTS...` makes one page of all nodes.",
    "本页缺少以下节点的事件：{nodes}。可用 `ma_boot report EVENTS...` 生成包含所有节点的页面。",
)
_UNREADABLE = Text("Unreadable lines of events: {count}.", "有 {count} 行事件无法解析。")
_EARLIER_RUNS = Text("Earlier runs that are not shown: {count}.", "更早的 {count} 次运行未显示。")

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


class Head(NamedTuple):
    """The header of the page; `why` is the cause in one line, `reason` what else is known of it.

    `exit_code` is None if the headline has it.
    """

    tone: str
    icon: str
    job: str
    headline: Text
    why: Text
    exit_code: Text | None
    meaning: Text | None
    reason: Text
    last_words_of: Text
    last_words: str
    hints: list[Text]


def head_of(timeline: Timeline, tails: Mapping[str, str]) -> Head:
    """Returns the header; `tails` are the ends of the logs, by log file."""
    outcome = timeline.outcome
    code, failed = outcome.exit_code, outcome.process
    tail = tails.get(failed.log_file, "") if failed else ""
    why = cause_in_own_words(timeline, tail)
    tone = _tone(outcome)
    end = headline(timeline)
    return Head(
        tone=tone,
        icon=_ICONS[tone],
        job=" · ".join(filter(None, [timeline.program, timeline.job])) or "ma_boot",
        headline=end,
        why=why,
        exit_code=_exit_code(code, end),
        meaning=meaning(timeline),
        reason=_rest_of_cause(outcome, why.en),
        last_words_of=_LAST_OUTPUT.filled(who=failed.label if failed else ""),
        last_words="\n".join(line[:LONGEST_LINE] for line in last_words(tail)),
        hints=[in_both(hint) for hint in _hints(outcome, tail)],
    )


def _exit_code(code: int | None, end: Text) -> Text | None:
    """Returns the line with the exit code; None if the headline has the code."""
    if code is None:
        return _NO_CODE
    return None if re.search(rf"exit code {code}\b", end.en) else _CODE.filled(code=code)


def _tone(outcome: JobOutcome) -> str:
    if outcome.exit_code is None:
        return "open"
    if outcome.doubt is not None:
        return "doubtful"
    return "bad" if outcome.exit_code else "good"


def _hints(outcome: JobOutcome, tail: str) -> list[str]:
    return [*([REMEDY] if outcome.doubt is not None else []), *hints_for(tail)]


def facts_of(timeline: Timeline) -> list[tuple[Text, object]]:
    """Returns the job in numbers, each with its name; zeros and empty texts are left out."""
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
    facts: list[tuple[Text, object]] = [
        (Text("started", "开始时间"), timeline.began and _moment_of_day(timeline.began)),
        (Text("duration", "总耗时"), duration(timeline.seconds)),
        (Text("nodes", "节点数"), nodes),
        (Text("processes", "进程数"), str(count_of_ranks(timeline))),
        (Text("hosts", "主机"), ", ".join(hosts[:MOST_NAMED]) + ("…" if len(hosts) > MOST_NAMED else "")),
        (Text("software", "软件版本"), ", ".join(versions)),
        (Text("commit of the code", "代码提交"), software.get("commit", "")),
        (Text("downloaded", "下载量"), moved["download"] and size(moved["download"])),
        (Text("uploaded", "上传量"), moved["upload"] and size(moved["upload"])),
        (Text("process restarts", "进程重启次数"), len(timeline.restarts)),
        (Text("reruns of the boot command", "启动命令重复执行次数"), _reruns(timeline)),
        (Text("times scheduled", "作业调度次数"), timeline.schedules if timeline.schedules > 1 else 0),
    ]
    return [(name, value) for name, value in facts if value and value != same("")]


def _reruns(timeline: Timeline) -> int:
    """Returns how often the job was started again: the nodes start together, each run is one of the job."""
    return max((len(node.runs) for node in timeline.nodes), default=1) - 1


def is_time_folded(timeline: Timeline) -> bool:
    """Returns whether the useful node time is folded: that of a short or failed job tells little."""
    return timeline.seconds < SHORT_JOB or timeline.outcome.exit_code != 0


def useful_time(timeline: Timeline) -> Text:
    """Formats the useful node time and the parts that the rest went into; empty without any node time."""
    spent = time_spent(timeline)
    paid, useful = sum(spent.values()), spent[COUNTED]
    if paid < SHORTEST_PART:
        return same("")
    rest = [part for part in _PARTS if spent[part] >= SHORTEST_PART]
    share = f"{useful / paid:.0%}"
    en = ", ".join(f"{part} {duration(spent[part])}" for part in rest)
    zh = "，".join(f"{_PARTS[part]} {duration(spent[part])}" for part in rest)
    return Text(
        f"{duration(useful)} of {duration(paid)} ({share})" + (f"; the rest: {en}" if rest else ""),
        f"{duration(useful)} / {duration(paid)}（{share}）" + (f"；其余：{zh}" if rest else ""),
    )


def count_of_ranks(timeline: Timeline) -> int:
    """Returns the number of ranks; that of all processes where none is known to be a rank."""
    processes = [process for _, process in timeline.last_processes()]
    return sum(process.rank is not None for process in processes) or len(processes)


def _moment_of_day(at: float) -> Markup:
    """Formats a moment in seconds since 1970 in UTC; the page's script replaces it by the reader's clock."""
    moment = datetime.fromtimestamp(at, timezone.utc)
    element = Markup('<time datetime="{:%Y-%m-%dT%H:%M:%SZ}">{:%Y-%m-%d %H:%M:%S} UTC</time>')
    return element.format(moment, moment)


def notices_of(timeline: Timeline) -> Iterator[Text]:
    """Yields a sentence for everything that the page lacks: nodes, lines, earlier runs."""
    missing = missing_nodes(timeline)
    if missing:
        yield _MISSING_NODES.filled(nodes=node_list(missing))
    if timeline.unreadable:
        yield _UNREADABLE.filled(count=timeline.unreadable)
    if timeline.earlier_runs:
        yield _EARLIER_RUNS.filled(count=timeline.earlier_runs)


def headline(timeline: Timeline) -> Text:
    """Returns the end of the job in one sentence: which process or node ended it, and how."""
    outcome = timeline.outcome
    code, process = outcome.exit_code, outcome.process
    if code is None:
        return _without_end(timeline)
    where = same("") if outcome.node is None else _ON_NODE.filled(node=outcome.node)
    if outcome.doubt is not None:
        return _DOUBTFUL.filled(subject=_subject(timeline), where=where)
    if code == 0:
        return _succeeded(timeline)
    if outcome.by == "signal":
        return _stopped(timeline, signal_name(outcome.signal or code - 128))
    names_a_rank = outcome.named is not None and outcome.named.rank is not None
    if process is not None and (outcome.by == "training" or (outcome.by == "node" and names_a_rank)):
        return _failed(process, where, _again(timeline))
    hung = process.label if process is not None else _last_hung(timeline)
    if code == ExitCode.HUNG and hung:
        return _HUNG.filled(who=_subject_of(hung), where=where, again=_again(timeline))
    if outcome.by in ("ma_boot", "output") and code in OUR_CODES:
        return _OUR_END.filled(meaning=_capitalized(OUR_CODES[code]), where=where)
    if outcome.by == "node" and outcome.label:
        who = Text(outcome.label, outcome.label.replace("node", "节点"))
        return _NODE_FAILED.filled(who=_capitalized(who), code=code)
    return _JOB_FAILED.filled(code=code)


def cause_in_own_words(timeline: Timeline, tail: str) -> Text:
    """Returns the cause in one line: the exception of the process that failed first, or ma_boot's own error.

    Of a doubtful success, the failure below the command. Empty after any other success, and where only a stop
    signal is known. `tail` is the end of that process's log, for events without its exception.
    """
    outcome = timeline.outcome
    named = outcome.named
    if outcome.doubt is not None:
        return in_both(outcome.doubt.in_words).cut(LONGEST_CAUSE)
    if outcome.exit_code in (None, 0):
        return same("")
    if outcome.by == "signal" and named is None:
        return _suspect_of_hang(timeline) if hung_at_the_end(timeline) else same("")
    # SIGKILL leaves no trace in the process's own log.
    if outcome.process is not None and outcome.process.oom:
        return in_both(out_of_memory(outcome.process.oom)).cut(LONGEST_CAUSE)
    if named is not None and outcome.by in ("training", "node", "signal"):
        in_headline = outcome.process is not None and outcome.by != "signal"
        return in_both(named.in_words if in_headline else str(named)).cut(LONGEST_CAUSE)
    if outcome.by == "training" or outcome.words:
        return in_both(outcome.words or (own_words(tail) if tail else None) or "").cut(LONGEST_CAUSE)
    suspect = _suspect_of_hang(timeline)
    if outcome.exit_code == ExitCode.HUNG and suspect.en:
        return suspect
    # An error with a list ("... is invalid:") is followed by its first problem.
    first, *items = lines_of(outcome.cause)
    shown = in_both(first).cut(LONGEST_CAUSE)
    if not first.endswith(":") or not items:
        return shown
    item = items[0].strip(" -")[:LONGEST_CAUSE]
    return Text(f"{shown.en} {item}", f"{shown.zh.rstrip(':：')}：{item}")


def _suspect_of_hang(timeline: Timeline) -> Text:
    """Returns the suspect of the last hang with its evidence; empty without one."""
    stacks = [suspected for _, run in timeline.all_runs() for suspected in run.stacks if suspected.suspect]
    if not stacks:
        return same("")
    return in_both(Message.of("{} {}", stacks[-1].suspect, stacks[-1].why)).cut(LONGEST_CAUSE)


def _rest_of_cause(outcome: JobOutcome, words: str) -> Text:
    """Returns the lines of the cause that neither the headline nor `words` have."""
    first, *details = lines_of(outcome.cause)
    # A suspect has its evidence as a sentence of its own: `node 0, rank 1: it is in load`.
    details = [line for line in details if not words or words not in line.replace(": it ", " ")]
    shown = bool(words) and (words in first or words.startswith(first))
    stopped = outcome.by == "signal" and ";" not in first
    known = shown or stopped or first == "success" or outcome.by == "training"
    if shown and details and details[0].strip(" -") in words:
        del details[0]
    return in_both(in_lines(details if known else [first, *details]))


def _succeeded(timeline: Timeline) -> Text:
    count = count_of_ranks(timeline)
    who = "its process" if count == 1 else f"all {count} processes"
    return _SUCCEEDED.filled(subject=_subject(timeline), again=_again(timeline), who=who, count=count)


def restarts_text(number: int, in_place: int) -> Text:
    """Returns the number of restarts before an end, some of them in place; empty if there is none."""
    if not number:
        return same("")
    some = _IN_PLACE.filled(number=in_place) if 0 < in_place < number else same("")
    return _AGAIN.filled(count=counted(number, "restart"), number=number, in_place=some)


def _again(timeline: Timeline) -> Text:
    """Returns the number of restarts before this end, in place and of the whole job; empty if none."""
    failed = [sum(run.exit_code != 0 for run in node.runs[:-1]) for node in timeline.nodes]
    by_events = len(timeline.restarts) + max(failed, default=0), len(timeline.restarts)
    # The events of earlier containers may be gone, and the ledger lacks a start where OBS failed.
    return restarts_text(*max(by_events, timeline.starts.restarts))


def _failed(process: ProcessSpan, where: Text, again: Text) -> Text:
    who = _subject_of(process.label)
    after = duration((process.end or process.start) - process.start)
    if process.code == 0:
        return _ENDED_EARLY.filled(who=who, where=where, again=again, after=after)
    if process.stopped or process.code is None:
        return _RAISED.filled(who=who, where=where, again=again, after=after)
    end = Text(f"ended with exit code {process.code}", f"退出，退出码 {process.code}")
    if process.oom:
        end = Text("was killed by the kernel, out of memory,", "因内存不足被内核终止")
    elif process.signal:
        name = signal_name(process.signal)
        end = Text(f"was killed by {name}", f"被 {name} 终止")
    return _FAILED.filled(who=who, where=where, again=again, end=end, after=after)


def _stopped(timeline: Timeline, signal: str) -> Text:
    """Names the nodes without an end, too: the loss of one may be why the job was stopped."""
    subject, silent = _subject(timeline), _silent_nodes(timeline)
    more = same("")
    if silent:
        more = _AND_NO_END.filled(node="nodes" if len(silent) > 1 else "node", names=node_list(silent))
    was = "were" if subject.en.startswith("Nodes") else "was"
    hung = hung_at_the_end(timeline)
    return _STOPPED.filled(
        subject=subject,
        was=was,
        signal=_CTRL_C if signal == "SIGINT" else _SIGNAL.filled(signal=signal),
        meanwhile=_WHILE_HUNG.filled(who=hung) if hung else same(""),
        again=_again(timeline),
        more=more,
    )


def hung_at_the_end(timeline: Timeline) -> str:
    """Returns the suspect of a hang in the last attempts, else the processes that hung; empty without one.

    A checkpoint or a step of these processes after the hang shows that it was over.
    """
    hangs: list[tuple[float, str]] = []
    suspects: list[tuple[float, str]] = []
    for node in timeline.nodes:
        run = node.last
        began = max((process.start for process in run.latest), default=run.start)
        began = max([began, *(at for at, _ in run.saves)])
        hangs += [(i.at, i.label) for i in run.incidents if i.kind == "hang" and i.at >= began]
        suspects += [(each.at, each.label) for each in run.stacks if each.label and each.at >= began]
    at, hung = max(suspects if hangs and suspects else hangs, default=(0.0, ""))
    return "" if any(_has_stepped(run, hung.split(", "), at) for _, run in timeline.all_runs()) else hung


def _has_stepped(run: BootRun, labels: Collection[str], since: float) -> bool:
    """Returns whether one of these processes has printed a step since a moment, as far as samples show it."""
    before = since
    for sample in (sample for sample in run.samples if sample.at >= since):
        # The first sample may have steps from before the moment.
        if before > since and any(
            f"rank {rank}" in labels for name in STEPS for rank in sample.ranks.get(name, ())
        ):
            return True
        before = sample.at
    return False


def _without_end(timeline: Timeline) -> Text:
    silent = _silent_nodes(timeline)
    if not timeline.nodes:
        return _NO_EVENTS
    names = ", ".join(map(str, silent[:MOST_NAMED])) + ("…" if len(silent) > MOST_NAMED else "")
    return _END_UNKNOWN.filled(node="node" if len(silent) == 1 else "nodes", names=names)


def _last_hung(timeline: Timeline) -> str:
    """Returns the processes that hung last on the node that ended the job."""
    node = next((node for node in timeline.nodes if node.number == timeline.outcome.node), None)
    hangs = [incident.label for incident in node.last.incidents if incident.kind == "hang"] if node else []
    return hangs[-1] if hangs else ""


def _silent_nodes(timeline: Timeline) -> list[int]:
    return [node.number for node in timeline.nodes if node.last.exit_code is None]


def meaning(timeline: Timeline) -> Text | None:
    """Explains the exit code, or names the program that gave it; None if there is nothing to add."""
    outcome = timeline.outcome
    code = outcome.exit_code
    if code is None:
        return None
    if outcome.doubt is not None:
        return _HIDES
    if outcome.process is not None and outcome.process.oom:
        return Text("OOM-killed by the kernel", "内存不足，被内核 OOM 终止")
    if outcome.by == "signal":
        name = signal_name(outcome.signal or code - 128)
        return Text(f"128 + the number of the stop signal, {name}", f"128 + 停止信号 {name} 的编号")
    if code == 0 and not _has_all_outputs(timeline):
        return None
    if outcome.by in ("training", "node"):
        known = meaning_of(code, outcome.process.signal if outcome.process is not None else None)
        return in_both(known) if known is not None else TRAINING_CODE
    return OUR_CODE if outcome.by in ("ma_boot", "output") else OUR_CODES.get(code)


def _has_all_outputs(timeline: Timeline) -> bool:
    """Returns whether the job has outputs, none of them empty."""
    runs = [node.last for node in timeline.nodes]
    outputs = [place for run in runs for place in run.places if place.direction == "output"]
    uploaded = any(moved.direction == "upload" and moved.files for run in runs for moved in run.transfers)
    has_files = uploaded or any(place.files for place in outputs)
    return has_files and bool(outputs) and all(place.files != 0 for place in outputs)


def missing_nodes(timeline: Timeline) -> list[int]:
    """Returns the numbers of the job's nodes without events."""
    here = {node.number for node in timeline.nodes}
    return [number for number in range(min(timeline.expected_nodes or 0, MOST_NODES)) if number not in here]


def node_list(numbers: list[int]) -> Text:
    """Lists the first numbers, and how many more there are."""
    some = ", ".join(map(str, numbers[:MOST_NAMED]))
    rest = len(numbers) - MOST_NAMED
    return Text(f"{some} and {rest} more", f"{some} 等 {len(numbers)} 个") if rest > 0 else same(some)


def _subject(timeline: Timeline) -> Text:
    """Returns the job, or those of its nodes whose events are here."""
    if not missing_nodes(timeline):
        return Text("The job", "作业")
    here = node_list([node.number for node in timeline.nodes])
    return Text(f"Node{'s' if len(timeline.nodes) > 1 else ''} {here.en}", f"节点 {here.zh} ")


def _subject_of(label: str) -> Text:
    return _capitalized(same(label))


def _capitalized(text: Text) -> Text:
    return Text(text.en[:1].upper() + text.en[1:], text.zh)
