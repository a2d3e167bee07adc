"""`ma_boot sync ...`: transfers the inputs and outputs of a path mapping, or plans that, without a job."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Tuple

import click

from ma_boot.cli.help import Group
from ma_boot.cli.options import DIR, SECONDS, SECONDS_ABOVE_0, files

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


def _command(function: Callable[..., int]) -> click.Command:
    """A subcommand with the options that all of them have."""

    @wraps(function)
    def called(
        environ: Mapping[str, str],
        mapping: str,
        obs_root: Optional[str],
        checksum: bool,
        shard: Optional[Tuple[int, int]],
        stall_timeout: float,
        timeout: float,
        **more: Any,
    ) -> int:
        from ma_boot.cli.sync_alone import SyncRequest  # slow to import: not for the help and completion

        return function(
            environ, SyncRequest(mapping, obs_root, checksum, shard, stall_timeout, timeout), **more
        )

    command: Callable[..., Any] = called
    for decorate in (
        click.pass_obj,
        click.option(
            "--shard", metavar="I/N", callback=_shard, help="This node's shard of inputs with `shard: true`."
        ),
        click.option("--checksum", is_flag=True, help="Compare contents, not sizes and times."),
        click.option(
            "--stall-timeout",
            **SECONDS_ABOVE_0,
            default=60,
            show_default=True,
            help="Retry a request to OBS that has transferred nothing for this long.",
        ),
        click.option(
            "--timeout",
            **SECONDS,
            default=600,
            show_default=True,
            help="Retry a request to OBS that fails for this long; 0: not at all.",
        ),
        click.option("--obs-root", **DIR, help="Use DIR/BUCKET/KEY instead of obs://BUCKET/KEY."),
        click.argument("mapping", shell_complete=files),
    ):
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
