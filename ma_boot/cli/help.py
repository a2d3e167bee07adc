"""The format of the help: each page fits on a screen, with complete sentences and an example."""

from __future__ import annotations

import click


class Group(click.Group):
    """A group whose help shows the complete first sentence of each command."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands; click would truncate the sentences."""
        commands = [(name, self.commands[name].get_short_help_str(1000)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(commands)
