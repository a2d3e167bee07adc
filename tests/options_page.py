"""`python -m tests.options_page` writes docs/options.md and its Chinese page from the commands and the keys of a job file.

The Chinese texts are in `chinese_options.txt`: the English text, and its translation below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Callable, NamedTuple

import click

from ma_boot.cli.app import COMMANDS, commands
from ma_boot.cli.options.declared import DeclaredOption
from ma_boot.cli.options.topics import TOPICS
from ma_boot.desk.job.job_file import KEYS
from tests.command_lines import all_commands

DOCS = Path(__file__).parents[1] / "docs"
CHINESE_TEXTS = Path(__file__).with_name("chinese_options.txt")
_ENGLISH_START = """\
# All options

[简体中文](options.zh-CN.md)

This page is generated from the help by `python -m tests.options_page`.

Each option `--some-name` of `ma_boot run` can also be set by the environment variable `MABOOT_SOME_NAME` (several values
separated by colons); the option takes precedence. Options go before COMMAND: everything after it belongs to it.
`ma_boot COMMAND` is short for `ma_boot run COMMAND`. Every command has `--help`. Rarely needed settings have no option, only
[a variable](#variables-without-an-option).
"""
_CHINESE_START = """\
# 全部选项

[English](options.md)

本页由 `python -m tests.options_page` 根据帮助信息生成。

`ma_boot run` 的每个选项 `--some-name` 也可以用环境变量 `MABOOT_SOME_NAME` 设置（多个值用冒号分隔）；选项优先于变量。选项写在 COMMAND
之前：其后的内容全部属于 COMMAND。`ma_boot COMMAND` 是 `ma_boot run COMMAND` 的简写。每个子命令都有 `--help`。很少用到的设置没有选项，只有[变量](#没有选项的变量)。
"""
_ENGLISH_NOTE = """\
`MABOOT_STALL_TIMEOUT` also applies to `ma_boot sync` and `ma_boot checkpoint`; `MABOOT_INTERVAL`, 10, is the time in
seconds between two polls of `ma_boot job submit --watch`, `watch` and `logs`. `MABOOT_JOB_TOKEN` is described in
[supervision.md](supervision.md#between-nodes).
"""
_CHINESE_NOTE = """\
`MABOOT_STALL_TIMEOUT` 也适用于 `ma_boot sync` 和 `ma_boot checkpoint`；`MABOOT_INTERVAL`（10）是 `ma_boot job submit --watch`、`watch`
和 `logs` 两次轮询之间的秒数。`MABOOT_JOB_TOKEN` 见 [supervision.md](supervision.md#between-nodes)。
"""
_SEE = {
    "obs": "[path-mapping.md](path-mapping.md)",
    "start": "[starting.md](starting.md), [platforms.md](platforms.md)",
    "ranks": "[starting.md](starting.md#the-rank-table)",
    "running": "[supervision.md](supervision.md), [metrics.md](metrics.md)",
    "plan": "[image.md](image.md#doctor)",
    "rehearsal": "[rehearsal.md](rehearsal.md)",
    "faults": "[rehearsal.md](rehearsal.md#faults-on-demand)",
    "containers": "[image.md](image.md#rehearse)",
}


class Language(NamedTuple):
    """A page in one language; `say` translates a text of the help."""

    page: Path
    start: str
    note: str
    say: Callable[[str], str]


def in_english(text: str) -> str:
    """Returns the text as it is."""
    return text


def in_chinese(text: str) -> str:
    """Returns the Chinese text; the page cannot be written without it."""
    known = chinese_texts().get(text)
    if known is None:
        raise ValueError(f"{CHINESE_TEXTS.name} has no Chinese text for {text!r}")
    return known


@cache
def chinese_texts() -> Mapping[str, str]:
    """Reads the Chinese texts; the keys are the English ones."""
    entries = CHINESE_TEXTS.read_text(encoding="utf-8").rstrip("\n").split("\n\n")[1:]
    return dict(entry.split("\n") for entry in entries)


ENGLISH = Language(DOCS / "options.md", _ENGLISH_START, note=_ENGLISH_NOTE, say=in_english)
CHINESE = Language(DOCS / "options.zh-CN.md", _CHINESE_START, note=_CHINESE_NOTE, say=in_chinese)


def page(language: Language) -> str:
    """Returns the text of the page in one language."""
    say = language.say
    return "\n".join([language.start, *_of_run(say), language.note, *_of_others(say), *_of_job_files(say)])


def _of_run(say: Callable[[str], str]) -> Iterator[str]:
    yield "## `ma_boot run`\n"
    variables: list[DeclaredOption] = []
    for topic in TOPICS:
        yield f"### {say(topic.about[0].upper() + topic.about[1:])}\n"
        variables += [option for option in topic.options if option.declared.variable_only]
        options = [option for option in topic.options if not option.declared.variable_only]
        head = f"{say('option')} | {say('default')} |"
        yield _table(head, ([_name(each), _default(each), _help(each, say)] for each in options))
        if topic.name in _SEE:
            yield _see(_SEE[topic.name], say)
    yield f"## {say('Variables without an option')}\n"
    rows = (
        [f"`{each.declared.variable}`", _code(each.value), _default(each), _help(each, say)]
        for each in variables
    )
    yield _table(f"{say('variable')} | {say('value')} | {say('default')} |", rows)


def _see(links: str, say: Callable[[str], str]) -> str:
    """Returns the line with links, in Chinese to the Chinese pages where there are any."""
    if say is in_english:
        return f"More: {links}.\n"
    translated = re.sub(r"[\w-]+(?=\.md)", _chinese_page, links)
    return f"{say('More')}：{translated.replace(', ', '、')}。\n"


def _chinese_page(name: re.Match[str]) -> str:
    return f"{name[0]}.zh-CN" if (DOCS / f"{name[0]}.zh-CN.md").exists() else name[0]


def _of_others(say: Callable[[str], str]) -> Iterator[str]:
    """A table for each command; a row for each option, with the sub-commands that have it."""
    for name in COMMANDS:
        parts = {
            words: command for words, command in all_commands(commands) if words.split()[0] == name != "run"
        }
        rows: dict[tuple[str, str, str], list[str]] = {}
        for words, command in parts.items():
            for option in command.params:
                if isinstance(option, click.Option) and not option.hidden:
                    row = (_name(option), _default(option), _help(option, say))
                    rows.setdefault(row, []).append(words.partition(" ")[2])
        if rows:
            yield f"## `ma_boot {name}`\n"
            yield _table(
                f"{say('option')} | {say('of')} | {say('default')} |",
                (
                    [option, say("all") if len(of) == len(parts) else _names(of), default, text]
                    for (option, default, text), of in rows.items()
                ),
            )


def _of_job_files(say: Callable[[str], str]) -> Iterator[str]:
    yield f"## {say('Keys of a job file')}\n"
    yield _table(f"{say('key')} |", ([f"`{key}`", say(facts["about"])] for key, facts in KEYS.items()))


def _names(of: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in of)


def _name(option: click.Option) -> str:
    """The option as it is typed, with its value."""
    names = ", ".join(reversed(option.opts)) if option.opts[-1].startswith("--") else option.opts[0]
    choices = "|".join(option.type.choices) if isinstance(option.type, click.Choice) else ""
    value = "" if option.is_flag else option.metavar or choices or "WORD"
    return _code(f"{names} {value}".strip())


def _default(option: click.Option) -> str:
    """Returns the default as code; empty if there is none, or if the help text names it."""
    default = option.default
    if not isinstance(default, (str, int, float)) or isinstance(default, bool) or not option.show_default:
        return ""
    return _code(f"{default:g}" if isinstance(default, float) else str(default))


def _help(option: click.Option, say: Callable[[str], str]) -> str:
    text = str(option.help)
    shown = say(text).replace("|", "\\|").replace("<", "\\<")
    if not option.multiple or "repeated" in text:
        return shown
    more = say("Several are separated by colons." if option.hidden else "May be repeated.")
    return f"{shown} {more}" if say is in_english else shown + more


def _code(text: str) -> str:
    return "`{}`".format(text.replace("|", "\\|"))


def _table(head: str, rows: Iterable[list[str]]) -> str:
    columns = head.count("|") + 1
    lines = [f"| {head} |", "|" + "---|" * columns, *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join([*lines, ""]).replace("|  |", "| |")


if __name__ == "__main__":
    for each in (ENGLISH, CHINESE):
        each.page.write_text(page(each), encoding="utf-8")
