"""Texts of the page, and translations of ma_boot's own messages in events, in English and Chinese.

`templates/chinese.txt` has a Chinese template for each English template of a `Message`, except hints, whose
table has both languages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup, escape

from ma_boot import wording
from ma_boot.errors import signal_name
from ma_boot.report.hint_table import hint_table
from ma_boot.wording import Message

_BOTH = Markup('<span class="en">{}</span><span class="zh" lang="zh-CN">{}</span>')


class Text(NamedTuple):
    """One text in both languages; the style sheet hides the one that is not chosen."""

    en: str
    zh: str

    def __html__(self) -> Markup:
        """Returns the escaped text; Jinja and markupsafe call this instead of escaping the object itself."""
        return escape(self.en) if self.en == self.zh else _BOTH.format(self.en, self.zh)

    def filled(self, **values: object) -> Text:
        """Fills the gaps (`{name}`) of both texts; a `Text` fills each one in its language."""
        en, zh = (
            {name: value[index] if isinstance(value, Text) else value for name, value in values.items()}
            for index in range(2)
        )
        return Text(self.en.format_map(en), self.zh.format_map(zh))

    def cut(self, most: int) -> Text:
        """Cuts the text to `most` characters in each language."""
        return Text(self.en[:most], self.zh[:most])


def same(text: str) -> Text:
    """Returns the text of a name or a number: the same in both languages."""
    return Text(text, text)


OUR_CODE = Text("an exit code of ma_boot, not of the training", "ma_boot 给出的退出码，并非来自训练进程")
TRAINING_CODE = Text("the training's own exit code", "训练进程自身的退出码")
OUR_CODES: dict[int, Text] = {
    0: Text("no output is missing", "没有缺失的输出"),
    64: Text("usage error on the command line", "命令行用法错误"),
    65: Text("the rank table is complete but invalid", "rank table 已就绪，但内容无效"),
    66: Text("an input does not exist in OBS", "OBS 中不存在某个输入"),
    69: Text("OBS is unreachable or refuses the credentials", "无法访问 OBS，或凭证被拒绝"),
    70: Text("internal error of ma_boot", "ma_boot 内部错误"),
    73: Text("a directory or file cannot be created", "无法创建目录或文件（磁盘已满或权限不足）"),
    74: Text("the training succeeded, but an upload failed", "训练成功，但有输出上传失败"),
    75: Text("the rank table was not completed in time", "rank table 未在规定时间内就绪"),
    78: Text("the configuration or the environment is invalid", "配置或环境有误"),
    124: Text("processes hung or could not be killed", "进程卡死或无法终止"),
    126: Text("the command cannot be executed", "命令无法执行"),
    127: Text("the command does not exist", "命令不存在"),
}
ROLES: dict[str, Text] = {
    "cause": Text("cause", "根因"),
    "followed": Text("failed afterwards", "随后失败"),
    "stopped": Text("stopped by ma_boot", "被 ma_boot 停止"),
    "well": Text("succeeded", "正常结束"),
    "doubtful": Text("exit code 0, but a process failed", "退出码为 0，但有进程失败"),
    "unknown": Text("end unknown", "结局未知"),
}
PHASES: dict[str, Text] = {
    "job": Text("job", "作业"),
    "environment": Text("environment", "环境"),
    "inputs": Text("inputs", "输入"),
    "rank table": Text("rank table", "rank table"),
    "launch": Text("launch", "启动"),
    "run": Text("run", "运行"),
    "outputs": Text("outputs", "输出"),
    "checkpoints": Text("checkpoints", "检查点"),
    "compile cache": Text("compile cache", "编译缓存"),
    "peers": Text("other nodes", "其他节点"),
}
INCIDENTS: dict[str, Text] = {
    "restart": Text("restart", "重启"),
    "stop": Text("stop", "停止"),
    "reset": Text("end requested by MindCluster", "MindCluster 要求结束"),
    "kill": Text("signal sent", "发送信号"),
    "unkillable": Text("could not be killed", "无法终止"),
    "hang": Text("hang", "卡死"),
    "waiting": Text("waited", "等待"),
    "left-over": Text("processes of an earlier run were stopped", "已清理上次运行遗留的进程"),
    "dropped": Text("lines not shown: standard output was blocked", "标准输出阻塞，部分行未显示"),
    "restored": Text("checkpoint to resume from", "从此检查点继续训练"),
    "checkpoints": Text(
        "last checkpoint of the node; newest complete checkpoint", "本节点最后的检查点；最新的完整检查点"
    ),
    "compile-cache": Text("compile cache", "编译缓存"),
    "slow rank": Text("slow rank", "慢 rank"),
    "loss not finite": Text("the loss is not a number", "loss 不是有效数值"),
    "fault": Text("injected fault", "演练注入的故障"),
    "start": Text("boot command run again", "启动命令再次执行"),
}


def phase_name(name: str) -> Text:
    """Returns the name of a phase in both languages; an unknown name stays as it is."""
    return PHASES.get(name, same(name))


def code_shown(code: int | None, signal: int | None) -> str:
    """Formats an exit code: `7` or `143 SIGTERM`; `?` if the end is unknown."""
    if code is None:
        return "?"
    return f"{code} {signal_name(signal)}" if signal else str(code)


def ranges(numbers: Sequence[int]) -> str:
    """Formats whole numbers in any order as `0–3, 8, 10–15`."""
    return wording.ranges(numbers, "–")


def in_both(text: str) -> Text:
    """Translates a message of ma_boot; any other text is the same in both languages."""
    return Text(text, _in_chinese(text))


def _in_chinese(text: str) -> str:
    if not isinstance(text, Message):
        return text
    args = [_in_chinese(arg) for arg in text.args]
    template = chinese_template(text.template)
    if template is not None:
        # An event of another version may have fewer arguments than the template has gaps.
        with suppress(IndexError):
            return template.format(*args)
    return Message(text.template, tuple(args))


def chinese_template(english: str) -> str | None:
    """Returns the Chinese template of a message or a hint; None if there is none.

    The table of hints is read only for a template with words that is no message of ma_boot's own: few pages
    have a hint.
    """
    known = catalogue().get(english)
    return hints_in_chinese().get(english) if known is None and re.search(r"\w", english) else known


@cache
def catalogue() -> Mapping[str, str]:
    """Reads the Chinese templates; the keys are the English ones."""
    text = (Path(__file__).with_name("templates") / "chinese.txt").read_text(encoding="utf-8")
    entries = (entry.partition("\n") for entry in text.rstrip("\n").split("\n\n")[1:])
    return {english: chinese for english, _, chinese in entries}


@cache
def hints_in_chinese() -> Mapping[str, str]:
    """Returns the Chinese templates of hints; the keys are the English ones."""
    return {row.english: row.chinese for row in hint_table()}
