"""The words of the page, and what the tool itself writes into events, in English and Chinese.

Translations of the latter are in `templates/chinese.txt`. Its patterns are no regular expressions, which take
milliseconds to be compiled at the end of a job. A text that no pattern matches stays as it is.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ma_boot import wording
from ma_boot.errors import signal_name


class Text(NamedTuple):
    """One text in both languages."""

    en: str
    zh: str


def same(text: str) -> Text:
    """A name or a number, which is the same in both languages."""
    return Text(text, text)


OUR_CODE = Text("an exit code of ma_boot, not of the training", "ma_boot 给出的退出码，并非来自训练进程")
TRAINING_CODE = Text("the training's own exit code", "训练进程自身的退出码")
OUR_CODES: Dict[int, Text] = {
    0: Text("all processes succeeded, and no output is missing", "所有进程成功结束，没有缺失的输出"),
    64: Text("usage error on the command line", "命令行用法错误"),
    65: Text("the rank table is complete but invalid", "rank table 已就绪，但内容无效"),
    66: Text("an input does not exist in OBS", "OBS 中不存在某个输入"),
    69: Text("OBS is unreachable or refuses the credentials", "无法访问 OBS，或凭证被拒绝"),
    70: Text("internal error of ma_boot", "ma_boot 内部错误"),
    73: Text("a directory or file cannot be created", "无法创建目录或文件（磁盘已满或权限不足）"),
    74: Text("the training succeeded, but an upload failed", "训练成功，但有输出上传失败"),
    75: Text("the rank table was not completed in time", "rank table 未在规定时间内就绪"),
    78: Text("the configuration or the environment is invalid", "配置或环境有误"),
    124: Text("processes hung or could not be killed", "进程挂起或无法终止"),
    126: Text("the command cannot be executed", "命令无法执行"),
    127: Text("the command does not exist", "命令不存在"),
}
ROLES: Dict[str, Text] = {
    "cause": Text("cause", "根因"),
    "followed": Text("failed afterwards", "随后失败"),
    "stopped": Text("stopped by ma_boot", "被 ma_boot 停止"),
    "well": Text("succeeded", "正常结束"),
    "unknown": Text("end unknown", "结局未知"),
}
PHASES: Dict[str, Text] = {
    "job": Text("job", "作业"),
    "environment": Text("environment", "环境"),
    "inputs": Text("inputs", "输入"),
    "rank table": Text("rank table", "rank table"),
    "launch": Text("launch", "启动"),
    "run": Text("run", "运行"),
    "outputs": Text("outputs", "输出"),
    "checkpoints": Text("checkpoints", "检查点"),
}
INCIDENTS: Dict[str, Text] = {
    "restart": Text("restart", "重启"),
    "stop": Text("stop", "停止"),
    "reset": Text("end asked for by MindCluster", "MindCluster 要求结束"),
    "kill": Text("signal sent", "发送信号"),
    "unkillable": Text("could not be killed", "无法终止"),
    "hang": Text("hang", "挂起"),
    "waiting": Text("waited", "等待"),
    "left-over": Text("processes of an earlier run were stopped", "已清理上次运行遗留的进程"),
    "dropped": Text("lines not shown: standard output was blocked", "标准输出阻塞，部分行未显示"),
    "restored": Text("checkpoint to go on from", "从此检查点继续训练"),
    "checkpoints": Text(
        "last checkpoint of the node; newest whole set", "本节点最后的检查点；最新的完整检查点"
    ),
    "slow rank": Text("slow rank", "慢 rank"),
    "loss not finite": Text("the loss is no number", "loss 不是有效数值"),
    "fault": Text("injected fault", "演练注入的故障"),
    "start": Text("boot command run again", "启动命令再次执行"),
}


def phase_name(name: str) -> Text:
    """The name of a phase in both languages."""
    return PHASES.get(name, same(name))


def code_shown(code: Optional[int], signal: Optional[int]) -> str:
    """`7` or `143 SIGTERM`; `?` if the end is unknown."""
    if code is None:
        return "?"
    return f"{code} {signal_name(signal)}" if signal else str(code)


def ranges(numbers: Sequence[int]) -> str:
    """`0–3, 8, 10–15` for whole numbers in any order."""
    return wording.ranges(numbers, "–")


MOST_DEPTH = 3
_HINT = "  -> "


def in_both(text: str, depth: int = MOST_DEPTH) -> Text:
    """A text of the tool with its translation, of several lines each."""
    if "\n" in text:
        parts = [in_both(line, depth) for line in text.split("\n")]
        return Text(text, "\n".join(part.zh for part in parts))
    if text.startswith(_HINT):
        return Text(text, _HINT + hint_in_both(text[len(_HINT) :]).zh)
    for english, chinese in _catalogue()[0]:
        gaps = _match_placeholders(english.split("{}"), text)
        if gaps is not None:
            shown = [in_both(part, depth - 1).zh for part in gaps] if depth else gaps
            return Text(text, chinese.format(*shown))
    return Text(text, text)


def hint_in_both(text: str) -> Text:
    """A hint, which may follow the text that it is for and a colon."""
    for english, chinese in _catalogue()[1]:
        at = text.find(english)
        if at >= 0:
            return Text(text, text[:at] + chinese)
    return Text(text, text)


Pairs = List[Tuple[str, str]]


@cache
def _catalogue() -> Tuple[Pairs, Pairs]:
    """The translations of patterns, and of hints by how they begin."""
    text = (Path(__file__).with_name("templates") / "chinese.txt").read_text(encoding="utf-8")
    patterns, hints = (
        [(english, chinese) for english, chinese in zip(lines[::3], lines[1::3])]
        for part in text.split("\n# ")
        for lines in [part.split("\n")[2:]]
    )
    return patterns, hints


def _match_placeholders(parts: List[str], text: str) -> Optional[List[str]]:
    """What stands in the gaps between the parts, none of it empty; None if the text is another one."""
    if not text.startswith(parts[0]) or not text.endswith(parts[-1]):
        return None
    rest, gaps = text[len(parts[0]) :], []
    for number, part in enumerate(parts[1:], 2):
        at = len(rest) - len(part) if number == len(parts) else rest.find(part)
        if at <= 0:
            return None
        gaps.append(rest[:at])
        rest = rest[at + len(part) :]
    return gaps if not rest else None
