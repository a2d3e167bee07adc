"""A command with so many options that its help has topics."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import click

from ma_boot.cli.options import RunOption, Topic, files

ALL = "all"


class CommandWithTopics(click.Command):
    """A command whose options do not fit on a screen: `--help TOPIC` shows those of a topic.

    The first word that is not an option begins its argument `command`; no options follow it.
    """

    def __init__(self, *args: Any, topics: Sequence[Topic], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params += [option for topic in topics for option in topic.options]
        self.topics = topics
        self._help_with_topics = click.Option(
            ["-h", "--help"],
            is_flag=False,
            flag_value="",  # of a --help without a topic
            metavar="[TOPIC]",
            is_eager=True,
            expose_value=False,
            callback=self._print_help,
            shell_complete=lambda ctx, param, start: [
                name for name in self._names() if name.startswith(start)
            ],
        )

    def get_help_option(self, ctx: click.Context) -> click.Option:
        """The option `--help`, which takes a topic, unlike click's."""
        return self._help_with_topics

    def _names(self) -> List[str]:
        return [*(topic.name for topic in self.topics), ALL]

    def _print_help(self, ctx: click.Context, option: click.Parameter, name: Optional[str]) -> None:
        if name is None or ctx.resilient_parsing:
            return
        if name not in ("", *self._names()):
            raise click.UsageError(f"--help {name}: expected one of {', '.join(self._names())}.", ctx)
        formatter = ctx.make_formatter()
        if name == "":
            self.format_help(ctx, formatter)
        for topic in self.topics:
            if name in (topic.name, ALL):
                _write_topic(topic, ctx, formatter)
        click.echo(formatter.getvalue().rstrip("\n"))
        ctx.exit()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the common options and the topics."""
        options = [option for topic in self.topics for option in topic.options if option.common]
        with formatter.section("Common options"):
            formatter.write_dl([(_short(option), option.help or "") for option in options])
        with formatter.section("All options by topic (--help TOPIC)"):
            formatter.write_dl([*((topic.name, topic.about) for topic in self.topics), (ALL, "all of these")])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> List[Any]:
        """Options, or files for the command and its arguments."""
        if incomplete.startswith("-") and not ctx.params.get("command"):
            return super().shell_complete(ctx, incomplete)
        return list(files(ctx, self.params[0], incomplete))


def _write_topic(topic: Topic, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    with formatter.section(topic.about[0].upper() + topic.about[1:]):
        _write_options(topic.options, ctx, formatter)
    if topic.more:
        formatter.write_paragraph()
        formatter.write_text(topic.more)
    with formatter.section("Example"):
        for line in topic.examples:
            formatter.write(f"{'':{formatter.current_indent}}{line}\n")


def _short(option: RunOption) -> str:
    value = "" if option.is_flag else option.metavar or "WORD"
    return f"{option.opts[-1]} {value}".rstrip()


def _write_options(options: Sequence[RunOption], ctx: click.Context, formatter: click.HelpFormatter) -> None:
    records = [option.get_help_record(ctx) for option in options]
    formatter.write_dl([record for record in records if record is not None], col_max=26)
