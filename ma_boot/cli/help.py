"""Format of the help pages, and standard output that reports lost text."""

from __future__ import annotations

import contextlib
import io
import os
from collections import UserDict
from collections.abc import Iterator
from importlib import import_module
from typing import Any, BinaryIO, cast

import click


class LazyCommands(UserDict[str, Any]):
    """Commands by name, from `MODULE:ATTRIBUTE`; each is imported when it is used, to keep starts fast."""

    def __getitem__(self, name: str) -> click.Command:
        module, attribute = self.data[name].split(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


class Group(click.Group):
    """A group whose help shows the complete first sentence of each command; alone it prints its help."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the words of the group; without any, those that ask for its help."""
        if not args and not ctx.resilient_parsing:
            args = ["--help"]
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns the command of this name or None; sets its options by variables `MABOOT_...`."""
        command = super().get_command(ctx, cmd_name)
        if command is not None and not isinstance(command, click.Group) and not ctx.resilient_parsing:
            from ma_boot.cli.options.sources import read_environment  # the overview needs no option

            ctx.default_map = {cmd_name: read_environment(command, ctx.obj or {})}
        return command

    def about(self, name: str) -> str:
        """Returns the first sentence of a command's help."""
        return self.commands[name].get_short_help_str(1000)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands; click would truncate the sentences."""
        commands = [(name, self.about(name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(commands)


@contextlib.contextmanager
def whole_output() -> Iterator[None]:
    """Treats text that is printed to `sys.stdout` within the block as `print_lines` treats its text.

    Raises `CannotCreate` if standard output does not take all of it.
    """
    output = cast(BinaryIO, _Output())
    text = io.TextIOWrapper(output, encoding="utf-8", errors="backslashreplace", write_through=True)
    with contextlib.redirect_stdout(text):
        yield


class _Output(io.BufferedIOBase):
    """Descriptor 1; a write returns when all bytes are written."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1

    def isatty(self) -> bool:
        return os.isatty(1)

    def write(self, data: Any) -> int:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(1, rest) :]
        except OSError:
            from ma_boot.report.console import print_bytes  # loaded on errors only

            print_bytes(rest)
        return len(data)
