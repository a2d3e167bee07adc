"""`ma_boot sync ...`: transfers by a path mapping without a job, plans that, or ends what was left."""

from __future__ import annotations

from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Tuple

import click

from ma_boot.cli.help import Group
from ma_boot.cli.options import age, files, store_options

if TYPE_CHECKING:
    from ma_boot.cli.sync_alone import SyncRequest


def _shard(ctx: click.Context, param: click.Parameter, value: Optional[str]) -> Optional[Tuple[int, int]]:
    """`0/4` is the first of four shards."""
    if value is None:
        return None
    index, _, count = value.partition("/")
    if index.isdecimal() and count.isdecimal() and int(index) < int(count):
        return int(index), int(count)
    raise click.BadParameter(f"found {value!r}, expected e.g. 0/4, 1/4, 2/4 or 3/4")


@click.group(cls=Group)
def sync() -> None:
    """Transfers inputs and outputs by a path mapping, without a job.

    Relative local paths start in the current directory.

    \b
    Example:
      ma_boot sync plan path_mapping_config.py
    """


_OF_FILES = (
    click.option(
        "--shard", metavar="I/N", callback=_shard, help="This node's shard of inputs with `shard: true`."
    ),
    click.option("--checksum", is_flag=True, help="Compare contents, not sizes and times."),
)
_OF_ALL = (
    *store_options(timeout=600),
    click.argument("mapping", shell_complete=files),
)


def _command(function: Callable[..., int], of_files: bool = True) -> click.Command:
    """A subcommand with the options that all of them have, and those that concern files."""

    @wraps(function)
    def called(
        environ: Mapping[str, str],
        mapping: str,
        obs_root: Optional[str],
        stall_timeout: float,
        timeout: float,
        checksum: bool = False,
        shard: Optional[Tuple[int, int]] = None,
        **more: Any,
    ) -> int:
        from ma_boot.cli.sync_alone import SyncRequest  # slow to import: not for the help and completion

        request = SyncRequest(mapping, obs_root, stall_timeout, timeout, checksum, shard)
        return function(environ, request, **more)

    command: Callable[..., Any] = called
    for decorate in (click.pass_obj, *(_OF_FILES if of_files else ()), *_OF_ALL):
        command = decorate(command)
    return sync.command(name=function.__name__)(command)


@_command
@click.option("--json", "as_json", is_flag=True, help="One JSON document per line, the totals last.")
def plan(environ: Mapping[str, str], request: SyncRequest, as_json: bool) -> int:
    """Prints what would be done with each file, and why; transfers nothing.

    Exits with 66 if an input does not exist, and with 73 if one would be refused or does not fit.

    \b
    Example:
      ma_boot sync plan path_mapping_config.py --shard 0/4
    """
    from ma_boot.cli import sync_alone

    return sync_alone.plan(environ, request, as_json)


@_command
def download(environ: Mapping[str, str], request: SyncRequest) -> int:
    """Downloads the inputs, except for files that are already here.

    \b
    Example:
      ma_boot sync download path_mapping_config.py --obs-root obs
    """
    from ma_boot.cli import sync_alone

    return sync_alone.download(environ, request)


@_command
def upload(environ: Mapping[str, str], request: SyncRequest) -> int:
    """Uploads the outputs, except for files that are already in OBS.

    \b
    Example:
      ma_boot sync upload path_mapping_config.py --checksum
    """
    from ma_boot.cli import sync_alone

    return sync_alone.upload(environ, request)


@partial(_command, of_files=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON document per line, the totals last.")
@click.option("--plan", "only_plan", is_flag=True, help="Print what would be aborted; abort nothing.")
@click.option(
    "--older-than",
    metavar="AGE",
    callback=age,
    help="Abort those of other processes and nodes, too, that were begun before: 7d, 36h.",
)
def prune(
    environ: Mapping[str, str], request: SyncRequest, older_than: float, only_plan: bool, as_json: bool
) -> int:
    """Aborts multipart uploads below the outputs' URLs that killed runs have left.

    Their parts are in no listing, but they cost money. Without --older-than only those are aborted that a
    killed run has noted beside the output: who began another one may still complete it.

    \b
    Example:
      ma_boot sync prune path_mapping_config.py --plan --older-than 7d
    """
    from ma_boot.cli import sync_alone

    return sync_alone.prune(environ, request, older_than, only_plan, as_json)
