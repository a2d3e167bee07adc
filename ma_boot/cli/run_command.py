"""The command `run` for click: its help by topic, its completion, and the order of precedence of its options.

Each option has the value of the first of these that sets it:

1. the command line;
2. the job file of `--job`: its form (nodes, inputs, ...), then its `options`, then its `environment`;
3. the environment variable `MABOOT_SOME_NAME`; beside a job file only for options of the rehearsal itself,
   since the job would not have the variables of this shell;
4. the default.

Click knows three sources: the command line, `Context.default_map` and the default. So 2 and 3 are merged
into `default_map` before click reads the command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ma_boot.cli.options.click_types import files
from ma_boot.cli.options.declared import DeclaredOption
from ma_boot.cli.options.sources import declared_options, read_environment, read_job_options
from ma_boot.cli.options.topics import TOPICS
from ma_boot.node.rehearsal_options import LOCAL
from ma_boot.redact import remember_secrets

if TYPE_CHECKING:
    from ma_boot.desk.job.job_file import JobFile
    from ma_boot.desk.job.readers import JobProblem

ALL = "all"
HELP_PAGES = (*(topic.name for topic in TOPICS), ALL)
TYPED = "ma_boot.typed"  # key of the context's meta: the words after `ma_boot`


class RunCommand(click.Command):
    """The command `run`; the first word that is not an option begins its argument `command`."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params += [option for topic in TOPICS for option in topic.options]
        # Unlike click's own, this --help takes a topic. The value "" stands for --help alone.
        self._help_with_topics = click.Option(
            ["-h", "--help"],
            is_flag=False,
            flag_value="",
            metavar="[TOPIC]",
            is_eager=True,
            expose_value=False,
            callback=self._print_help,
            shell_complete=lambda ctx, param, start: [page for page in HELP_PAGES if page.startswith(start)],
        )

    def get_help_option(self, ctx: click.Context) -> click.Option:
        """The option `--help`, which takes a topic."""
        return self._help_with_topics

    def _print_help(self, ctx: click.Context, option: click.Parameter, page: str | None) -> None:
        if page is None or ctx.resilient_parsing:
            return
        if page not in ("", *HELP_PAGES):
            raise click.UsageError(f"--help {page}: expected one of {', '.join(HELP_PAGES)}.", ctx)
        formatter = ctx.make_formatter()
        if page == "":
            self.format_help(ctx, formatter)
        for topic in TOPICS:
            if page in (topic.name, ALL):
                topic.write(ctx, formatter)
        click.echo(formatter.getvalue().rstrip("\n"))
        ctx.exit()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the common options and the topics."""
        common = [option for option in declared_options(self) if option.declared.common]
        with formatter.section("Common options"):
            formatter.write_dl([(_usage(option), option.help or "") for option in common])
        with formatter.section("All options by topic (--help TOPIC)"):
            formatter.write_dl([*((topic.name, topic.about) for topic in TOPICS), (ALL, "all of these")])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Options, or files for the command and its arguments."""
        if incomplete.startswith("-") and not ctx.params.get("command"):
            return super().shell_complete(ctx, incomplete)
        return list(files(ctx, self.params[0], incomplete))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the options in the order of precedence; raises `click.BadParameter`, and for a bad job file
        `ConfigError`."""
        ctx.meta[TYPED] = tuple(args)
        file = None if ctx.resilient_parsing else self._job_file(ctx, args)
        if not file:
            return self._parse_without_job(ctx, args)
        from ma_boot.desk.job.load import load_job  # most starts have no job file

        job = load_job(file, self.problems_of_options)
        shell = self._of_rehearsal_itself(ctx.default_map or {})
        ctx.default_map = {**shell, "job": file, **self.defaults_of(job)}
        ctx.obj = {**(ctx.obj or {}), **job.environment}
        remember_secrets(ctx.obj)
        rest = super().parse_args(ctx, args)
        ctx.params["command"] = ctx.params["command"] or job.command
        # The patterns of both, as with `job submit --set exclude=PATTERN`.
        if ctx.get_parameter_source("exclude") is ParameterSource.COMMANDLINE:
            ctx.params["exclude"] = (*job.exclude, *ctx.params["exclude"])
        if ctx.params["runner"] == "docker":
            ctx.params["image"] = ctx.params["image"] or job.image
        return rest

    def _parse_without_job(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads command line and environment; an invalid value of a variable is reported by its name."""
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as error:
            option = error.param
            source = ctx.get_parameter_source(option.name or "") if option else None
            if isinstance(option, DeclaredOption) and source is ParameterSource.DEFAULT_MAP:
                error.param_hint = option.declared.variable
            raise

    def _job_file(self, ctx: click.Context, args: list[str]) -> str | None:
        """The file of `--job`, which is needed before the other options can be read."""
        # Most command lines have no --job, and then the words are read only once.
        is_given = any(word.startswith("--job") for word in args)
        given = self.make_parser(ctx).parse_args(list(args))[0] if is_given else {}
        file: str | None = given.get("job") or (ctx.default_map or {}).get("job")
        return file

    def _of_rehearsal_itself(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of this shell's variables that configure the rehearsal, not the rehearsed job."""
        from ma_boot.desk.job.job_file import KEYS  # as above

        names = {
            option.name
            for option in declared_options(self)
            if option.declared.variable_only
            and LOCAL in option.declared.requires
            and option.opts[-1][2:] not in KEYS
        }
        return {name: value for name, value in values.items() if name in names}

    def problems_of_options(self, job: JobFile) -> list[JobProblem]:
        """The mistakes in the options of ma_boot in a job."""
        problems = read_job_options(self, job.options).problems
        return [job.problem(f"options: {problem.option}", problem.text) for problem in problems]

    def defaults_of(self, job: JobFile) -> dict[str, Any]:
        """The values of a job file: of its form before its options before its environment."""
        form = {
            "nodes": job.nodes,
            "devices_per_node": job.devices_per_node,
            "code_dir": job.code_dir or None,
            "exclude": job.exclude,
            "input": tuple(map(str, job.inputs)),
            "output": tuple(map(str, job.outputs)),
            "append_args": " ".join(job.arguments) or None,
        }
        return {
            **read_environment(self, job.environment),
            **read_job_options(self, job.options).values,
            **{name: value for name, value in form.items() if value},
        }


def _usage(option: DeclaredOption) -> str:
    value = "" if option.is_flag else option.metavar or "WORD"
    return f"{option.opts[-1]} {value}".rstrip()
