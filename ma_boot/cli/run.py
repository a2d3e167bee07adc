"""`ma_boot run`: boots this node of a job, rehearses a job on this machine, or prints the launch plan."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ma_boot.cli.options.option import (
    LOCAL,
    RunOption,
    RunVariable,
    Topic,
    did_you_mean,
    files,
    from_environment,
    misfits,
    misplaced_options,
    of_job,
    unknown_variables,
)
from ma_boot.cli.options.topics import TOPICS
from ma_boot.node.environment.command import StartScript, read_start_script
from ma_boot.node.environment.command_words import TrainingCommand, read_command
from ma_boot.platform.modelarts.job import job_directory
from ma_boot.redact import remember_secrets
from ma_boot.report.console import print_lines

if TYPE_CHECKING:
    from ma_boot.desk.job.job_file import JobFile
    from ma_boot.desk.job.readers import JobProblem


ALL = "all"
TYPED = "ma_boot.typed"  # the words after `ma_boot`, in the context's meta
_OF_A_SHELL = {"cd", "source", ".", "export", "set", "ulimit", "eval", "exec"}
_ENVIRONMENT_OPTIONS = ("python", "conda_env", "source")


class _Run(click.Command):
    """A command whose options do not fit on a screen: `--help TOPIC` shows those of a topic.

    The first word that is not an option begins its argument `command`; no options follow it. With
    `--job FILE` the file has the defaults of the options, the command and variables.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params += [option for topic in TOPICS for option in topic.options]
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

    def _names(self) -> list[str]:
        return [*(topic.name for topic in TOPICS), ALL]

    def _print_help(self, ctx: click.Context, option: click.Parameter, name: str | None) -> None:
        if name is None or ctx.resilient_parsing:
            return
        if name not in ("", *self._names()):
            raise click.UsageError(f"--help {name}: expected one of {', '.join(self._names())}.", ctx)
        formatter = ctx.make_formatter()
        if name == "":
            self.format_help(ctx, formatter)
        for topic in TOPICS:
            if name in (topic.name, ALL):
                _write_topic(topic, ctx, formatter)
        click.echo(formatter.getvalue().rstrip("\n"))
        ctx.exit()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the common options and the topics."""
        options = [option for topic in TOPICS for option in topic.options if option.common]
        with formatter.section("Common options"):
            formatter.write_dl([(_short(option), option.help or "") for option in options])
        with formatter.section("All options by topic (--help TOPIC)"):
            formatter.write_dl([*((topic.name, topic.about) for topic in TOPICS), (ALL, "all of these")])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Options, or files for the command and its arguments."""
        if incomplete.startswith("-") and not ctx.params.get("command"):
            return super().shell_complete(ctx, incomplete)
        return list(files(ctx, self.params[0], incomplete))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return self._parsed(ctx, args)
        except click.BadParameter as error:
            option, of_job = error.param, "job" in (ctx.default_map or {})
            source = ctx.get_parameter_source(option.name or "") if option else None
            if isinstance(option, RunOption) and source is ParameterSource.DEFAULT_MAP and not of_job:
                error.param_hint = option.variable
            raise

    def _parsed(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[TYPED] = tuple(args)
        file = None if ctx.resilient_parsing else self._job_file(ctx, args)
        if not file:
            return super().parse_args(ctx, args)
        from ma_boot.desk.job.job_file import KEYS
        from ma_boot.desk.job.load import load_job  # most starts have no job file

        job = load_job(file, self.problems_of_options)
        of_rehearsal = {
            option.name
            for option in self.params
            if isinstance(option, RunVariable)
            and LOCAL in option.requires
            and option.opts[-1][2:] not in KEYS
        }
        of_shell = {name: value for name, value in (ctx.default_map or {}).items() if name in of_rehearsal}
        ctx.default_map = {**of_shell, "job": file, **self.defaults_of(job)}
        ctx.obj = {**(ctx.obj or {}), **job.environment}
        remember_secrets(ctx.obj)
        rest = super().parse_args(ctx, args)
        ctx.params["command"] = ctx.params["command"] or job.command
        if ctx.params["runner"] == "docker":
            ctx.params["image"] = ctx.params["image"] or job.image or None
        return rest

    def _job_file(self, ctx: click.Context, args: list[str]) -> str | None:
        """The file of `--job`, which is needed before the other options can be read."""
        is_given = any(word.startswith("--job") for word in args)  # else they are read only once
        given = self.make_parser(ctx).parse_args(list(args))[0] if is_given else {}
        file: str | None = given.get("job") or (ctx.default_map or {}).get("job")
        return file

    def problems_of_options(self, job: JobFile) -> list[JobProblem]:
        """What is wrong with the options of ma_boot in a job."""
        return [
            job.problem(f"options: {problem.option}", problem.text)
            for problem in of_job(self, job.options).problems
        ]

    def defaults_of(self, job: JobFile) -> dict[str, Any]:
        """The options that rehearse a job: its own, those of its variables, and what its form says."""
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
            **from_environment(self, job.environment),
            **of_job(self, job.options).values,
            **{name: value for name, value in form.items() if value},
        }


def _write_topic(topic: Topic, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    with formatter.section(topic.about[0].upper() + topic.about[1:]):
        records = [option.get_help_record(ctx) for option in topic.options]
        formatter.write_dl([record for record in records if record is not None], col_max=26)
    if topic.more:
        formatter.write_paragraph()
        formatter.write_text(topic.more)
    with formatter.section("Example"):
        for line in topic.examples:
            formatter.write(f"{'':{formatter.current_indent}}{line}\n")


def _short(option: RunOption) -> str:
    value = "" if option.is_flag else option.metavar or "WORD"
    return f"{option.opts[-1]} {value}".rstrip()


@click.command(
    cls=_Run,
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS] [--]",
    epilog="Environment variables MABOOT_SOME_NAME set --some-name unless it is given.",
)
@click.argument(
    "command", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND [ARGS]...", shell_complete=files
)
@click.pass_context
def run(ctx: click.Context, /, command: Sequence[str], **options: Any) -> int:
    """Boots this node of a job: inputs, rank table, one process per device, outputs.

    COMMAND is a .py file, -m MODULE, a .sh file or a program.

    \b
    Example:
      ma_boot train.py --epochs 90
      ma_boot --path-mapping path_mapping_config.py --conda-env torch train.py
      ma_boot --local --nodes 2 --devices-per-node 4 train.py
    """
    from ma_boot.cli import execute
    from ma_boot.node.boot.request import check_platform, conflicts, requested

    environ: Mapping[str, str] = ctx.obj
    training = read_command(("-m", *command) if options["as_module"] else command)
    request = requested(training, options, _start_script(training, environ))
    problems = [*_missing(ctx.params), *misfits(ctx), *conflicts(request)]
    if problems:
        raise click.UsageError("\n".join(problems))
    for note in _notes(ctx, training):
        print_lines(f"ma_boot: note: {note}", 2)
    if not options["local"]:
        check_platform(request, environ)
    if options["plan"]:
        return execute.print_plan(request, options, environ)
    if options["local"]:
        return execute.rehearse_job(request, options, environ, ctx.meta[TYPED])
    return execute.boot_here(request, environ)


def _start_script(command: TrainingCommand, environ: Mapping[str, str]) -> StartScript | None:
    """The shell script of the command, in this directory or in the job's code."""
    try:
        return read_start_script(command, os.getcwd(), job_directory(environ))
    except FileNotFoundError:  # the directory was removed, which is reported later
        return None


def _notes(ctx: click.Context, training: TrainingCommand) -> list[str]:
    """What is allowed, but hardly meant. Raises `click.UsageError` for a program that does not exist."""
    options = [option for option in ctx.command.params if isinstance(option, RunOption)]
    command, environ = ctx.params["command"], ctx.obj
    if command and not ctx.params["as_module"]:
        group = ctx.parent.command if ctx.parent else None
        names = list(group.commands) if isinstance(group, click.Group) else []
        question = _what_was_meant(command[0], names, ctx.params, environ)
        if question is not None:
            raise click.UsageError(question)
    place = training.script.place - ctx.params["as_module"] if training.script else 0
    return [
        *_unused_variables(ctx, options),
        *unknown_variables(environ, [option.variable for option in options]),
        *misplaced_options(command, place, [option.opts[-1] for option in options]),
    ]


def _unused_variables(ctx: click.Context, options: Sequence[RunOption]) -> list[str]:
    """A line for variables of the shell that the job would not get, and so its rehearsal does not, either."""
    shell = ctx.parent.obj if ctx.parent and ctx.params["job"] else {}
    names = [
        option.variable
        for option in options
        if shell.get(option.variable) and option.name not in (ctx.default_map or {})
    ]
    if not names:
        return []
    return [
        f"{', '.join(names)}: not used, as the job would not have it; put it into the job file's environment"
    ]


def _what_was_meant(
    word: str, commands: Iterable[str], options: Mapping[str, object], environ: Mapping[str, str]
) -> str | None:
    """A question for a first word that is no program: a similar command of ma_boot, or a script here.

    None where the word may be a program that only the training's environment has.
    """
    if not word.strip():
        return "COMMAND is empty"
    first = word.split()[0]
    known = first == "python" or shutil.which(first, path=environ.get("PATH", ""))
    if first != word and known and not os.path.exists(word):
        return f"{word}: no such program; write the command as words, without quotes around all of it"
    if word in _OF_A_SHELL:
        return f"{word} is a command of the shell, and ma_boot runs none: put the commands into a .sh file"
    selected = any(options[name] for name in _ENVIRONMENT_OPTIONS) or environ.get("DEFAULT_CONDA_ENV_NAME")
    if (
        word.endswith((".py", ".sh"))
        or selected
        or os.sep in word
        or word.startswith("-")
        or shutil.which(word, path=environ.get("PATH", ""))
    ):
        return None
    for script in (word, f"{word}.py", f"{word}.sh"):
        if os.path.isfile(script):
            meant = script if script != word else os.path.join(os.curdir, word)
            return f"{word}: no such program on PATH; did you mean {meant}?"
    question = did_you_mean(word, list(commands), "ma_boot ")
    return f"{word}: no such command of ma_boot, and no such program on PATH{question}" if question else None


def _missing(options: Mapping[str, Any]) -> Iterator[str]:
    """What is missing: arguments, options, and ranks of `--tee` that a rehearsed job does not have."""
    if not options["command"]:
        yield "Missing argument 'COMMAND [ARGS]...'."
    if options["local"] and options["runner"] == "docker" and options["image"] is None:
        yield "--runner docker: name the job's image with --image."
    size = options["nodes"] * options["devices_per_node"]
    named = options["tee"].split(",") if options["local"] and options["tee"][:1].isdigit() else []
    unknown = [rank for rank in named if int(rank) >= size]
    if unknown:
        ranks = "rank 0 only" if size == 1 else f"the ranks 0 to {size - 1}"
        yield f"--tee {','.join(unknown)}: the job has {ranks} (--nodes, --devices-per-node)."
