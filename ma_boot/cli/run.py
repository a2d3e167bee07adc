"""`ma_boot run`: boots this node of a job, rehearses a job on this machine, or prints the launch plan."""

from __future__ import annotations

import os
from typing import Any, Iterable, List, Mapping, Optional, Sequence

import click

from ma_boot.cli.options import (
    TOPICS,
    RunOption,
    did_you_mean,
    files,
    misfits,
    misplaced_options,
    unknown_variables,
)
from ma_boot.cli.topics import CommandWithTopics

_ENVIRONMENT_OPTIONS = ("python", "conda_env", "source")


@click.command(
    cls=CommandWithTopics,
    topics=TOPICS,
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
    from ma_boot.cli import execute  # the help and a shell's completion load nothing that runs a job
    from ma_boot.node import check_platform, conflicts, requested
    from ma_boot.reporting import print_lines

    environ: Mapping[str, str] = ctx.obj
    request = requested(command, options)
    problems = [*_missing(ctx), *_unknown_ranks(ctx), *misfits(ctx), *conflicts(request)]
    if problems:
        raise click.UsageError("\n".join(problems))
    for note in _notes(ctx):
        print_lines(f"ma_boot: note: {note}", 2)
    if not options["local"]:
        check_platform(request, environ)
    if options["plan"]:
        return execute.print_plan(request, options, environ)
    if options["local"]:
        return execute.rehearse_job(request, options, environ)
    return execute.boot_here(request, environ)


def _notes(ctx: click.Context) -> List[str]:
    """What is allowed, but hardly meant. Raises `click.UsageError` for a program that does not exist."""
    from ma_boot.environment import command_parts

    options = [option for option in ctx.command.params if isinstance(option, RunOption)]
    command, environ = ctx.params["command"], ctx.obj
    if command and not ctx.params["as_module"]:
        group = ctx.parent.command if ctx.parent else None
        names = list(group.commands) if isinstance(group, click.Group) else []
        question = _what_was_meant(command[0], names, ctx.params, environ)
        if question is not None:
            raise click.UsageError(question)
    script = command_parts(command).script
    return [
        *unknown_variables(environ, [option.variable for option in options]),
        *misplaced_options(command, script.place if script else 0, [one.opts[-1] for one in options]),
    ]


def _what_was_meant(
    word: str, commands: Iterable[str], options: Mapping[str, object], environ: Mapping[str, str]
) -> Optional[str]:
    """A question for a first word that is no program: a similar command of ma_boot, or a script here.

    None where the word may be a program that only the training's environment has.
    """
    import shutil  # only for a job

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


def _unknown_ranks(ctx: click.Context) -> List[str]:
    """Ranks of `--tee` that a rehearsed job does not have."""
    options = ctx.params
    size = options["nodes"] * options["devices_per_node"]
    named = options["tee"].split(",") if options["local"] and options["tee"][:1].isdigit() else []
    unknown = [rank for rank in named if int(rank) >= size]
    ranks = "rank 0 only" if size == 1 else f"the ranks 0 to {size - 1}"
    return (
        [f"--tee {','.join(unknown)}: the job has {ranks} (--nodes, --devices-per-node)."] if unknown else []
    )


def _missing(ctx: click.Context) -> List[str]:
    """Required arguments and options that are missing."""
    options = ctx.params
    missing = []
    if not options["command"] and (options["plan"] or not _has_own_training(options["fault"])):
        missing.append("Missing argument 'COMMAND [ARGS]...'.")
    if options["local"] and options["runner"] == "docker" and options["image"] is None:
        missing.append("--runner docker: name the job's image with --image.")
    return missing


def _has_own_training(faults: Sequence[str]) -> bool:
    from ma_boot.rehearsal.faults import ALL_FAULTS

    return faults == ALL_FAULTS
