"""Command lines of documents and help pages, and a check of them that runs no command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click

from ma_boot.cli.app import commands
from ma_boot.cli.options.requirements import find_unmet_requirements
from ma_boot.cli.run import run
from ma_boot.node.boot.request import build_request, find_conflicts
from ma_boot.node.environment.command_words import read_command

_BLOCK = re.compile(r"^```(?:\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SHELL = re.compile(r"^( *)```sh\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"(?:\$ |exec |\w+=\S+ )*(ma_boot(?: .*)?)")


def tree(command: click.Command, *names: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yields a command and all below it, with their words after `ma_boot`."""
    yield names, command
    for name, below in command.commands.items() if isinstance(command, click.Group) else ():
        yield from tree(below, *names, name)


def all_commands(group: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yields each command that is no group, with its words after `ma_boot`."""
    for names, command in tree(group):
        if not isinstance(command, click.Group):
            yield " ".join(names), command


def options_of(command: click.Command) -> list[click.Option]:
    """Returns the options of a command with long names, without those that only a variable sets."""
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    return [option for option in options if option.opts[-1].startswith("--")]


def parsed(line: str) -> click.Context:
    """Returns click's context of a command line; raises `click.ClickException` for an invalid one."""
    words = shlex.split(line)[1:]
    command: click.Command = commands
    while isinstance(command, click.Group):
        command = command.commands[words.pop(0)] if words[0] in command.commands else run
    return command.make_context(command.name, words)


def find_mistakes(line: str) -> list[object]:
    """Returns the mistakes in a command line."""
    try:
        context = parsed(line.replace("/*-", "/job-node-0-"))
    except click.ClickException as error:
        return [error.format_message()]
    if context.command is not run:
        return []
    command = read_command(context.params["command"])
    return [*find_unmet_requirements(context), *find_conflicts(build_request(command, context.params))]


def lines_in_blocks(text: str) -> Iterator[str]:
    """Yields each command line of ma_boot in the blocks of a document, without comment and redirection.

    Blocks are fenced or indented; so are the cells of a table that are one command line.
    """
    text = text.replace("\\\n", "")
    outside = _BLOCK.sub("", text)
    lines = [line for block in _BLOCK.findall(text) for line in block.splitlines()]
    lines += [line for line in outside.splitlines() if line.startswith("    ")]
    lines += re.findall(r"(?<=\| )`([^`\n]+)`(?= \|$)", outside, re.MULTILINE)
    for line in lines:
        match = _COMMAND.fullmatch(line.strip())
        if match:
            yield re.sub(r" +(# |>>? ).*", "", match[1])


def shell_lines(text: str) -> Iterator[str]:
    """Yields each command of the fenced blocks for a shell, of `ma_boot` or not; a block that is a script has none."""
    for indentation, block in _SHELL.findall(text):
        lines = block.replace("\\\n", "").splitlines()
        if not lines[0].startswith("#!"):
            yield from (line.removeprefix(indentation) for line in lines if line.strip())


def is_boot_command(line: str) -> bool:
    """Returns True for a command that the platform starts, which needs `--local` on any other machine."""
    words = shlex.split(line.removeprefix("exec "), comments=True)
    return words[0] == "ma_boot" and "--local" not in words and words[1] not in commands.commands


def find_wrong_lines(text: str) -> list[tuple[str, list[object]]]:
    """Returns the invalid command lines of a document, each with the reasons."""
    return [(line, reasons) for line in lines_in_blocks(text) if (reasons := find_mistakes(line))]
