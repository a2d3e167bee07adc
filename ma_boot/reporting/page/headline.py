"""The cause of a job's end in plain words. Pure."""

from __future__ import annotations

from typing import List, Optional

from ma_boot.errors import ExitCode, signal_name
from ma_boot.reporting import EXIT_CODES, duration
from ma_boot.reporting.page.words import CODES, OUR_CODE, TRAINING_CODE, Text, same
from ma_boot.reporting.timeline import JobOutcome, Timeline

MOST_NAMED = 8


def headline(line: Timeline) -> Text:
    """One sentence for whoever asks how the job ended."""
    verdict = line.outcome
    if verdict.exit_code is None:
        return _without_end(line)
    if verdict.exit_code == 0:
        count = sum(1 for _ in line.last_processes())
        who = _subject(line)
        return Text(
            f"{who.en} ended well: {_processes(count)} ended with 0.",
            f"{who.zh}成功：{count} 个进程均以 0 结束。",
        )
    if verdict.by == "signal":
        name = signal_name(verdict.signal or verdict.exit_code - 128)
        who = _subject(line)
        en, zh = _silence(line)
        return Text(
            f"{who.en} was stopped from outside, by {name}{en}.", f"{who.zh}被外部信号 {name} 停止{zh}。"
        )
    if verdict.process is not None and verdict.by == "training":
        return _failing_process(verdict)
    hung = _hung(line)
    if verdict.exit_code == ExitCode.HUNG and hung:
        return Text(f"{_capital(hung)}{_where_en(verdict)} hung.", f"{hung}{_where_zh(verdict)}挂起。")
    meaning = CODES.get(verdict.exit_code) if verdict.by in ("ma_boot", "output") else None
    if meaning is not None:
        return Text(f"{_capital(meaning.en)}{_where_en(verdict)}.", f"{meaning.zh}{_where_zh(verdict)}。")
    code = verdict.exit_code
    if verdict.by == "node" and verdict.label:
        who = Text(_capital(verdict.label), verdict.label.replace("node", "节点"))
        return Text(f"{who.en} failed first, with exit code {code}.", f"{who.zh} 最先失败，退出码 {code}。")
    return Text(f"The job failed with exit code {code}.", f"作业失败，退出码 {code}。")


def _failing_process(verdict: JobOutcome) -> Text:
    life = verdict.process
    assert life is not None
    after = duration((life.end or life.start) - life.start)
    en_end = f"ended with exit code {life.code}"
    zh_end = f"以退出码 {life.code} 结束"
    if life.signal:
        en_end = f"was killed by {signal_name(life.signal)}"
        zh_end = f"被 {signal_name(life.signal)} 终止"
    who = _capital(life.label)
    return Text(
        f"{who}{_where_en(verdict)} failed first: it {en_end} after {after}.",
        f"{life.label}{_where_zh(verdict)}最先失败：运行 {after} 后{zh_end}。",
    )


def _hung(line: Timeline) -> str:
    """The processes that were last found to hang on the node which the verdict names."""
    starts = [node.runs[-1] for node in line.nodes if node.number == line.outcome.node and node.runs]
    found = [mark.label for start in starts for mark in start.incidents if mark.kind == "hang"]
    return found[-1] if found else ""


def _silent_nodes(line: Timeline) -> List[int]:
    return [node.number for node in line.nodes if not node.runs or node.runs[-1].exit_code is None]


def _silence(line: Timeline) -> Text:
    """What a stop of all the others may come from: a node that was lost."""
    silent = _silent_nodes(line)
    if not silent:
        return same("")
    which = node_list(silent)
    return Text(f"; of node {which.en} no end is known", f"；节点 {which.zh} 结局未知")


def _without_end(line: Timeline) -> Text:
    silent = _silent_nodes(line)
    if not line.nodes:
        return Text("The events tell of no node.", "事件中没有任何节点。")
    some = ", ".join(map(str, silent[:MOST_NAMED])) + ("…" if len(silent) > MOST_NAMED else "")
    which = f"Node {some}" if len(silent) == 1 else f"Nodes {some}"
    return Text(
        f"No end is known. {which} wrote none: still running, killed, or lost.",
        f"结局未知：节点 {some} 没有写下结束事件（仍在运行、被强杀或已丢失）。",
    )


def meaning(verdict: JobOutcome) -> Optional[Text]:
    """What the exit code stands for, and whose it is."""
    code = verdict.exit_code
    if code is None:
        return None
    life = verdict.process
    if life is not None and life.oom:
        return Text("OOM-killed by the kernel", "内存不足，被内核 OOM 杀死")
    if verdict.by == "signal":
        return Text("128 + the number of the stop signal", "128 + 停止信号的编号")
    if verdict.by in ("training", "node"):
        return Text(*EXIT_CODES[code]) if code in EXIT_CODES else TRAINING_CODE
    if verdict.by in ("ma_boot", "output"):
        return OUR_CODE
    return CODES.get(code)


def missing_nodes(line: Timeline) -> List[int]:
    """The nodes of the job whose events are not here."""
    here = {node.number for node in line.nodes}
    return [number for number in range(min(line.expected_nodes or 0, 4096)) if number not in here]


def node_list(numbers: List[int]) -> Text:
    """Some numbers, and how many more."""
    some = ", ".join(map(str, numbers[:MOST_NAMED]))
    rest = len(numbers) - MOST_NAMED
    return Text(f"{some} and {rest} more", f"{some} 等 {len(numbers)} 个") if rest > 0 else same(some)


def _subject(line: Timeline) -> Text:
    """What the page can speak of: the job, or the nodes of it that are here."""
    if not missing_nodes(line):
        return Text("The job", "作业")
    here = node_list([node.number for node in line.nodes])
    return Text(f"Node{'s' if len(line.nodes) > 1 else ''} {here.en}", f"节点 {here.zh} ")


def _processes(count: int) -> str:
    return "its process" if count == 1 else f"all {count} processes"


def _where_en(verdict: JobOutcome) -> str:
    return "" if verdict.node is None else f" on node {verdict.node}"


def _where_zh(verdict: JobOutcome) -> str:
    return "" if verdict.node is None else f"（节点 {verdict.node}）"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
