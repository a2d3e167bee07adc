"""`python -m tests.options_page` writes docs/options.md from the commands and the keys of a job file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from ma_boot.cli.app import COMMANDS, commands
from ma_boot.cli.options.declared import DeclaredOption
from ma_boot.cli.options.topics import TOPICS
from ma_boot.desk.job.job_file import KEYS
from tests.command_lines import all_commands

PAGE = Path(__file__).parents[1] / "docs" / "options.md"
_START = """\
# All options

This page is generated from the help by `python -m tests.options_page`.

Each option `--some-name` of `ma_boot run` can also be set by the environment variable `MABOOT_SOME_NAME` (several values
separated by colons); the option takes precedence. Options go before COMMAND: everything after it belongs to it. `ma_boot
COMMAND` is short for `ma_boot run COMMAND`. Every command has `--help`. Rarely needed settings have no option, only
[a variable](#variables-without-an-option).
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


def page() -> str:
    """The text of docs/options.md."""
    return "\n".join([_START, *_of_run(), *_of_others(), *_of_job_files()])


def _of_run() -> Iterator[str]:
    yield "## `ma_boot run`\n"
    variables: list[DeclaredOption] = []
    for topic in TOPICS:
        yield f"### {topic.about[0].upper()}{topic.about[1:]}\n"
        variables += [option for option in topic.options if option.declared.variable_only]
        options = [option for option in topic.options if not option.declared.variable_only]
        yield _table("option | default |", ([_name(each), _default(each), _help(each)] for each in options))
        if topic.name in _SEE:
            yield f"More: {_SEE[topic.name]}.\n"
    yield "## Variables without an option\n"
    rows = (
        [f"`{each.declared.variable}`", _code(each.value), _default(each), _help(each)] for each in variables
    )
    yield _table("variable | value | default |", rows)
    yield (
        "`MABOOT_STALL_TIMEOUT` also applies to `ma_boot sync` and `ma_boot checkpoint`; `MABOOT_INTERVAL`, 10, is the time in\n"
        "seconds between two polls of `ma_boot job submit --watch`, `watch` and `logs`. `MABOOT_JOB_TOKEN` is described in\n"
        "[supervision.md](supervision.md#between-nodes).\n"
    )


def _of_others() -> Iterator[str]:
    """A table for each command; a row for each option, with the sub-commands that have it."""
    for name in COMMANDS:
        parts = {
            words: command for words, command in all_commands(commands) if words.split()[0] == name != "run"
        }
        rows: dict[tuple[str, str, str], list[str]] = {}
        for words, command in parts.items():
            for option in command.params:
                if isinstance(option, click.Option) and not option.hidden:
                    row = (_name(option), _default(option), _help(option))
                    rows.setdefault(row, []).append(words.partition(" ")[2])
        if rows:
            yield f"## `ma_boot {name}`\n"
            yield _table(
                "option | of | default |",
                (
                    [option, _names(of, len(parts)), default, text]
                    for (option, default, text), of in rows.items()
                ),
            )


def _of_job_files() -> Iterator[str]:
    yield "## Keys of a job file\n"
    yield _table("key |", ([f"`{key}`", facts["about"]] for key, facts in KEYS.items()))


def _names(of: list[str], most: int) -> str:
    return "all" if len(of) == most else ", ".join(f"`{name}`" for name in of)


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


def _help(option: click.Option) -> str:
    text = str(option.help).replace("|", "\\|").replace("<", "\\<")
    if not option.multiple or "repeated" in text:
        return text
    return f"{text} {'Several are separated by colons' if option.hidden else 'May be repeated'}."


def _code(text: str) -> str:
    return "`{}`".format(text.replace("|", "\\|"))


def _table(head: str, rows: Iterable[list[str]]) -> str:
    columns = head.count("|") + 1
    lines = [f"| {head} |", "|" + "---|" * columns, *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join([*lines, ""]).replace("|  |", "| |")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
