"""`ma_boot run`: boots this node of a job, rehearses a job on this machine, or prints the launch plan."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from ma_boot.cli.options.click_types import files
from ma_boot.cli.options.requirements import find_unmet_requirements
from ma_boot.cli.options.sources import declared_options
from ma_boot.cli.run_command import TYPED, RunCommand
from ma_boot.cli.typos import explain_unknown_program, find_misplaced_options, find_unknown_variables
from ma_boot.node.boot.request import build_request, check_platform, find_conflicts
from ma_boot.node.environment.command import StartScript, read_start_script
from ma_boot.node.environment.command_words import TrainingCommand, read_command
from ma_boot.platform.modelarts.job import job_directory
from ma_boot.report.console import print_lines

_ENVIRONMENT_OPTIONS = ("python", "conda_env", "source")


@click.command(
    cls=RunCommand,
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS] [--]",
    epilog="Environment variables MABOOT_SOME_NAME set --some-name unless it is given.",
)
@click.argument(
    "command", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND [ARGS]...", shell_complete=files
)
@click.pass_context
def run(ctx: click.Context, /, command: Sequence[str], **options: Any) -> int:
    """Boots this node of a job: inputs, rank table, processes, outputs.

    COMMAND is a .py file, -m MODULE, a .sh file or a program.

    \b
    Example:
      ma_boot train.py --epochs 90
      ma_boot --path-mapping path_mapping_config.py --conda-env torch train.py
      ma_boot --local --nodes 2 --devices-per-node 4 train.py
    """
    from ma_boot.cli import execute  # loads the phases of the boot, which help and completion do not need

    environ: Mapping[str, str] = ctx.obj
    training = read_command(("-m", *command) if options["as_module"] else command)
    request = build_request(training, options, _start_script(training, environ))
    problems = [*_find_missing(ctx.params), *find_unmet_requirements(ctx), *find_conflicts(request)]
    if problems:
        raise click.UsageError("\n".join(problems))
    _check_program(ctx)
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
    except FileNotFoundError:  # the working directory was removed, which is reported later
        return None


def _find_missing(options: Mapping[str, Any]) -> Iterator[str]:
    """Yields what is missing: the command, an image, and ranks of `--tee` that a rehearsed job lacks."""
    if not options["command"]:
        yield "Missing argument 'COMMAND [ARGS]...'."
    if options["local"] and options["runner"] == "docker" and not options["image"]:
        yield "--runner docker: name the job's image with --image."
    if options["quiet"] and options["verbose"]:
        yield "--quiet, --verbose: expected one of them."
    size = options["nodes"] * options["devices_per_node"]
    named = options["tee"].split(",") if options["local"] and options["tee"][:1].isdigit() else []
    unknown = [rank for rank in named if int(rank) >= size]
    if unknown:
        ranks = "rank 0 only" if size == 1 else f"the ranks 0 to {size - 1}"
        yield f"--tee {','.join(unknown)}: the job has {ranks} (--nodes, --devices-per-node)."


def _check_program(ctx: click.Context) -> None:
    """Raises `click.UsageError` if COMMAND begins with a word that is no program, but was meant to be one."""
    command, environ = ctx.params["command"], ctx.obj
    if not command or ctx.params["as_module"]:
        return
    root = ctx.parent.command if ctx.parent else None
    is_selected = any(ctx.params[name] for name in _ENVIRONMENT_OPTIONS)
    has_own_environment = is_selected or bool(environ.get("DEFAULT_CONDA_ENV_NAME"))
    message = explain_unknown_program(
        command[0],
        _words_of_commands(root) if isinstance(root, click.Group) else (),
        options=[option.opts[-1] for option in declared_options(ctx.command)],
        path=environ.get("PATH", ""),
        has_own_environment=has_own_environment,
    )
    if message is not None:
        raise click.UsageError(message)


def _words_of_commands(root: click.Group) -> Iterator[str]:
    """Yields the words of each command after `ma_boot`; imports the groups, so only for a mistake."""
    yield from root.commands
    for name, command in root.commands.items():
        if isinstance(command, click.Group):
            yield from (f"{name} {below}" for below in command.commands)


def _notes(ctx: click.Context, training: TrainingCommand) -> list[str]:
    """The notes on words and variables that are allowed, but probably a mistake."""
    options = declared_options(ctx.command)
    script = training.script.place - ctx.params["as_module"] if training.script else 0
    return [
        *_find_unused_variables(ctx),
        *find_unknown_variables(ctx.obj, [option.declared.variable for option in options]),
        *find_misplaced_options(ctx.params["command"], script, [option.opts[-1] for option in options]),
    ]


def _find_unused_variables(ctx: click.Context) -> list[str]:
    """Returns a line with this shell's variables that a rehearsal ignores, as the job would not have them."""
    shell = ctx.parent.obj if ctx.parent and ctx.params["job"] else {}
    names = [
        option.declared.variable
        for option in declared_options(ctx.command)
        if shell.get(option.declared.variable) and option.name not in (ctx.default_map or {})
    ]
    if not names:
        return []
    return [
        f"{', '.join(names)}: not used, as the job would not have it; put it into the job file's environment"
    ]
