"""`ma_boot sync ...`: what a path mapping would move, and moving it, without a job."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional

import click

from ma_boot.cli.help import Group
from ma_boot.cli.options import DIR, SECONDS_ABOVE_0, files

if TYPE_CHECKING:
    from ma_boot.cli.sync_alone import SyncRequest
    from path_mapping.mapping import Shard


def _share(ctx: click.Context, param: click.Parameter, value: Optional[str]) -> Optional[Shard]:
    """`0/4` as the first of four parts."""
    index, _, count = (value or "").partition("/")
    if value is None:
        return None
    if index.isdecimal() and count.isdecimal() and int(index) < int(count):
        from path_mapping.mapping import Shard  # not for the help and a shell that completes

        return Shard(int(index), int(count))
    raise click.BadParameter(f"found {value!r}, expected as in 0/4, 1/4, 2/4 or 3/4")


def _command(name: str) -> Callable[[Callable[..., int]], click.Command]:
    """A sub-command with the options that all of them have."""

    def decorated(function: Callable[..., int]) -> click.Command:
        @wraps(function)
        def called(
            environ: Mapping[str, str],
            mapping: str,
            obs_root: Optional[str],
            checksum: bool,
            shard: Optional[Shard],
            stall_timeout: float,
            **more: Any,
        ) -> int:
            from ma_boot.cli.sync_alone import SyncRequest  # the help and a shell that completes move nothing

            return function(environ, SyncRequest(mapping, obs_root, checksum, shard, stall_timeout), **more)

        command: Callable[..., Any] = called
        for wrap in (
            click.pass_obj,
            click.option(
                "--shard", metavar="I/N", callback=_share, help="This node's part of inputs that say `shard`."
            ),
            click.option("--checksum", is_flag=True, help="Compare contents, not sizes and times."),
            click.option(
                "--stall-timeout",
                **SECONDS_ABOVE_0,
                default=60,
                show_default=True,
                help="A request of which nothing moves for so long has failed, and is made again.",
            ),
            click.option("--obs-root", **DIR, help="Take obs://BUCKET/KEY from DIR/BUCKET/KEY."),
            click.argument("mapping", shell_complete=files),
        ):
            command = wrap(command)
        return sync.command(name=name)(command)

    return decorated


@click.group(cls=Group)
def sync() -> None:
    """Moves inputs and outputs by a path mapping, without a job.

    Relative local paths start in this directory.

    \b
    Example:
      ma_boot sync plan path_mapping_config.py
    """


@_command("plan")
@click.option("--json", "as_json", is_flag=True, help="One JSON document a line, the totals last.")
def plan(environ: Mapping[str, str], request: SyncRequest, as_json: bool) -> int:
    """Prints what would become of each file, and why; moves nothing.

    Ends with 66 for an input that does not exist, and 73 for one that would be refused or does not fit.

    \b
    Example:
      ma_boot sync plan path_mapping_config.py --shard 0/4
    """
    from ma_boot.cli import sync_alone

    return sync_alone.plan(environ, request, as_json)


@_command("download")
def download(environ: Mapping[str, str], request: SyncRequest) -> int:
    """Fetches the inputs; what is here already is left as it is.

    \b
    Example:
      ma_boot sync download path_mapping_config.py --obs-root obs
    """
    from ma_boot.cli import sync_alone

    return sync_alone.download(environ, request)


@_command("upload")
def upload(environ: Mapping[str, str], request: SyncRequest) -> int:
    """Stores the outputs; what is in OBS already is left as it is.

    \b
    Example:
      ma_boot sync upload path_mapping_config.py --checksum
    """
    from ma_boot.cli import sync_alone

    return sync_alone.upload(environ, request)
