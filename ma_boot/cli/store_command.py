"""Commands that reach OBS without a job: `ma_boot sync` and `ma_boot checkpoint`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from typing import Any, Callable, NamedTuple

import click

from ma_boot.cli.options.click_types import SECONDS, files
from ma_boot.cli.options.declared import add_option_of
from ma_boot.node.transfers.options import TransferOptions


class StoreRequest(NamedTuple):
    """Access of a command to OBS; `where` is a path mapping or a URL, the timeouts are in seconds."""

    environ: Mapping[str, str]
    where: str
    obs_root: str | None
    stall_timeout: float
    timeout: float


def store_command(
    group: click.Group, argument: str, timeout: int, *options: Callable[..., Any]
) -> Callable[[Callable[..., int]], click.Command]:
    """Makes a function a command of `group` that reaches OBS without a job.

    The function takes a `StoreRequest`, and the values of `options` and of its own ones by their names.
    `timeout` is the default in seconds.
    """
    common: tuple[Callable[..., Any], ...] = (
        click.pass_obj,
        *options,
        add_option_of(TransferOptions, "stall_timeout"),
        click.option(
            "--timeout",
            **SECONDS,
            default=timeout,
            show_default=True,
            help="Retry a failing request to OBS for this long; 0: do not retry.",
        ),
        add_option_of(TransferOptions, "obs_root"),
        click.argument(argument, shell_complete=files),
    )

    def command(function: Callable[..., int]) -> click.Command:
        @wraps(function)
        def called(environ: Mapping[str, str], /, **values: Any) -> int:
            names = (argument, *StoreRequest._fields[2:])
            return function(StoreRequest(environ, *(values.pop(name) for name in names)), **values)

        decorated: Any = called
        for decorate in common:
            decorated = decorate(decorated)
        return group.command(name=function.__name__.rstrip("_"))(decorated)

    return command
