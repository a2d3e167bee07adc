"""`ma_boot checkpoint ...`: lists, verifies, fetches and removes checkpoint sets, without a job."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Tuple

import click

from ma_boot.cli.help import Group
from ma_boot.cli.options import age, directories, files, store_options

if TYPE_CHECKING:
    from ma_boot.cli.checkpoint_sets import SetsRequest


@click.group(cls=Group)
def checkpoint() -> None:
    """Lists, verifies, fetches and removes the checkpoint sets of an output in OBS.

    WHERE is the output's URL, or a path mapping with outputs that have `checkpoint`.

    \b
    Example:
      ma_boot checkpoint list obs://bucket/checkpoints
    """


_OPTIONS: Tuple[Callable[..., Any], ...] = (
    click.option("--json", "as_json", is_flag=True, help="One JSON document per line."),
    *store_options(timeout=60),
    click.argument("where", shell_complete=files),
)
_step = click.option("--step", metavar="STEP", help="The newest whole set of this step, not of all.")


def _command(function: Callable[..., int]) -> click.Command:
    """A subcommand with the options that all of them have."""

    @wraps(function)
    def called(
        environ: Mapping[str, str],
        where: str,
        obs_root: Optional[str],
        stall_timeout: float,
        timeout: float,
        as_json: bool,
        **more: Any,
    ) -> int:
        from ma_boot.cli.checkpoint_sets import SetsRequest  # slow to import: not for the help

        return function(SetsRequest(environ, where, obs_root, stall_timeout, timeout, as_json), **more)

    command: Callable[..., Any] = called
    for decorate in (click.pass_obj, *_OPTIONS):
        command = decorate(command)
    return checkpoint.command(name=function.__name__.rstrip("_"))(command)


@_command
def list_(request: SetsRequest) -> int:
    """Prints a line for each set, the newest first: whether it is whole, and if not, why.

    \b
    Example:
      ma_boot checkpoint list obs://bucket/checkpoints --json
    """
    from ma_boot.cli import checkpoint_sets

    return checkpoint_sets.print_sets(request)


@_command
@_step
@click.option("--contents", is_flag=True, help="Read all objects, too, and compare their checksums.")
def verify(request: SetsRequest, step: Optional[str], contents: bool) -> int:
    """Compares the objects of the newest whole set with its manifests.

    Exits with 65 if one is missing, has another size or was replaced, and with 66 if no set is whole.

    \b
    Example:
      ma_boot checkpoint verify path_mapping_config.py --step 1200 --contents
    """
    from ma_boot.cli import checkpoint_sets

    return checkpoint_sets.verify(request, step, contents)


@_command
@_step
@click.option(
    "--to", metavar="DIR", required=True, shell_complete=directories, help="Where to put the files."
)
def fetch(request: SetsRequest, step: Optional[str], to: str) -> int:
    """Downloads the newest whole set with the files of all nodes, each compared with its checksum.

    Other steps that DIR has are moved aside, as at the start of a job.

    \b
    Example:
      ma_boot checkpoint fetch obs://bucket/checkpoints --to checkpoints
    """
    from ma_boot.cli import checkpoint_sets

    return checkpoint_sets.fetch(request, step, to)


@_command
@click.option(
    "--keep",
    type=click.IntRange(1),
    metavar="N",
    help="Whole sets to keep; default: as in the mapping, or all.",
)
@click.option(
    "--older-than",
    metavar="AGE",
    callback=age,
    help="Of files that belong to no set, also those of the newest start that were stored before: 7d, 36h.",
)
@click.option("--plan", "only_plan", is_flag=True, help="Print what would be removed; remove nothing.")
def prune(request: SetsRequest, keep: Optional[int], older_than: float, only_plan: bool) -> int:
    """Removes all whole sets but the newest N, and what earlier starts of the job could not complete.

    These are sets without the manifests of all nodes, and files that no manifest names. What the newest start
    goes on from is kept; so are, without --older-than, its own files: it may be running.

    \b
    Example:
      ma_boot checkpoint prune obs://bucket/checkpoints --keep 3 --plan
    """
    from ma_boot.cli import checkpoint_sets

    return checkpoint_sets.prune(request, keep, older_than, only_plan)
