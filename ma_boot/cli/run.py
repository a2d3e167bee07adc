"""`ma_boot run`: boots this node of a job, rehearses a job on this machine, or prints the launch plan."""

from __future__ import annotations

from typing import Any, List, Mapping, Sequence

import click

from ma_boot.cli.options import TOPICS, files, misfits
from ma_boot.cli.topics import CommandWithTopics


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
    from ma_boot.node import conflicts, requested

    environ: Mapping[str, str] = ctx.obj
    request = requested(command, options)
    problems = [*_missing(ctx), *misfits(ctx), *conflicts(request)]
    if problems:
        raise click.UsageError("\n".join(problems))
    if options["plan"]:
        return execute.print_plan(request, options, environ)
    if options["local"]:
        return execute.rehearse_job(request, options, environ)
    return execute.boot_here(request, environ)


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
