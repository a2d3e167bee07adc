"""`ma_boot image ...`: the image of a job on a container engine, before any job."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from types import FrameType
from typing import Iterator, Mapping, Optional

import click

from ma_boot.console import print_lines
from ma_boot.errors import Stopped


@click.group("image")
def image() -> None:
    """Builds an image, holds it against ModelArts' rules, pushes it: `ma_boot image check my-training`."""


@image.command(name="check")
@click.argument("name", metavar="IMAGE")
@click.option("--arch", type=click.Choice(["aarch64", "x86_64"]), help="Architecture of the job's servers.")
@click.option("--command", metavar="TEXT", help="A boot command to start, as in the job form.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_context
def check_command(
    ctx: click.Context, /, name: str, arch: Optional[str], command: Optional[str], as_json: bool
) -> None:
    """Checks IMAGE against ModelArts' rules: every finding at once; 65 if a job would fail on one."""
    from ma_boot.image import check  # the engine's SDK is for those who build images
    from ma_boot.image.engine import engine

    environ: Mapping[str, str] = ctx.obj
    with stopped_by_sigterm(), engine(environ) as client:
        findings = check.check(client, name, arch, command)
    print_lines(check.as_json(name, findings) if as_json else check.as_text(name, findings))
    check.refuse(name, findings)


@contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """SIGTERM raises `Stopped` in the block, so that what it made is removed."""

    def stop(signum: int, frame: Optional[FrameType]) -> None:
        raise Stopped(signum)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
