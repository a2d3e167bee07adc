"""How a job ended, in a sentence of plain words. Pure."""

from __future__ import annotations

from typing import List, Optional

from ma_boot.errors import ExitCode, signal_name
from ma_boot.reporting import meaning_of, own_words
from ma_boot.reporting.page.language import OUR_CODE, OUR_CODES, TRAINING_CODE, Text, in_both, same
from ma_boot.reporting.timeline import JobOutcome, ProcessSpan, Timeline
from ma_boot.wording import duration

MOST_NAMED = 8
MOST_SAID = 400  # characters of a cause's own words


def headline(timeline: Timeline) -> Text:
    """The end of the job in one sentence: which process or node ended it, and how."""
    outcome = timeline.outcome
    code = outcome.exit_code
    if code is None:
        return _without_end(timeline)
    if code == 0:
        count = sum(1 for _ in timeline.last_processes())
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
    if outcome.process is not None and outcome.by == "training":
        return _failed(outcome.process, where)
    hung = _hung(timeline)
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


def said(timeline: Timeline, tail: str) -> Text:
    """Why, in the words of whoever knows: of the process that failed first, or of ma_boot's own error.

    `tail` is the end of that process's log, for events that do not have its words.
    """
    outcome = timeline.outcome
    of_others = [run.job_cause for _, run in timeline.all_runs() if run.job_cause]
    if outcome.exit_code in (None, 0) or (outcome.by == "signal" and not of_others):
        return same("")
    if outcome.process is not None and outcome.process.oom:  # which its log knows nothing of
        return in_both(f"out of memory: {outcome.process.oom}"[:MOST_SAID])
    if of_others and not outcome.words:
        return same(of_others[-1][:MOST_SAID])
    if outcome.by == "training" or outcome.words:
        return same((outcome.words or (own_words(tail) if tail else None) or "")[:MOST_SAID])
    stacks = [one for _, run in timeline.all_runs() for one in run.stacks if one.suspect]
    if outcome.exit_code == ExitCode.HUNG and stacks:
        who, why = stacks[-1].suspect, in_both(stacks[-1].why[:MOST_SAID])
        return Text(f"{who} {why.en}", f"{who} {why.zh}")
    first, *items = outcome.cause.split("\n")
    shown = in_both(first[:MOST_SAID])
    if not first.endswith(":") or not items:
        return shown
    item = items[0].strip(" -")[:MOST_SAID]
    return Text(f"{shown.en} {item}", f"{shown.zh.rstrip(':：')}：{item}")


def _failed(process: ProcessSpan, where: Text) -> Text:
    after = duration((process.end or process.start) - process.start)
    end = Text(f"ended with exit code {process.code}", f"退出，退出码 {process.code}")
    if process.oom:
        end = Text("was killed by the kernel, out of memory,", "因内存不足被内核终止")
    elif process.signal:
        name = signal_name(process.signal)
        end = Text(f"was killed by {name}", f"被 {name} 终止")
    return Text(
        f"{_capital(process.label)}{where.en} failed first: it {end.en} after {after}.",
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
    runs = [n.runs[-1] for n in timeline.nodes if n.number == timeline.outcome.node and n.runs]
    found = [incident.label for run in runs for incident in run.incidents if incident.kind == "hang"]
    return found[-1] if found else ""


def _silent_nodes(timeline: Timeline) -> List[int]:
    return [node.number for node in timeline.nodes if not node.runs or node.runs[-1].exit_code is None]


def meaning(outcome: JobOutcome) -> Optional[Text]:
    """What the exit code means, and whose it is; None if there is none."""
    code = outcome.exit_code
    if code is None:
        return None
    if outcome.process is not None and outcome.process.oom:
        return Text("OOM-killed by the kernel", "内存不足，被内核 OOM 终止")
    if outcome.by == "signal":
        return Text("128 + the number of the stop signal", "128 + 停止信号的编号")
    if outcome.by in ("training", "node"):
        found = meaning_of(code, outcome.process.signal if outcome.process is not None else None)
        return Text(*found) if found is not None else TRAINING_CODE
    return OUR_CODE if outcome.by in ("ma_boot", "output") else OUR_CODES.get(code)


def missing_nodes(timeline: Timeline) -> List[int]:
    """The nodes of the job without events."""
    here = {node.number for node in timeline.nodes}
    return [number for number in range(min(timeline.expected_nodes or 0, 4096)) if number not in here]


def node_list(numbers: List[int]) -> Text:
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
