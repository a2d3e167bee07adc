"""`ma_boot image ...`: the image of a job on a container engine, before any job."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Iterator, Optional, Sequence

import click

from ma_boot.cli.help import Group
from ma_boot.cli.options import directories
from ma_boot.errors import Stopped
from ma_boot.reporting import Console, is_interactive, print_lines


@click.group("image", cls=Group)
def image() -> None:
    """Builds an image, holds it against ModelArts' rules, pushes it to SWR.

    \b
    Example:
      ma_boot image check my-training
    """


_command = click.option("--command", metavar="TEXT", help="A boot command, as in the job form.")


@image.command(name="build")
@click.argument("context", metavar="[DIR]", default=".", shell_complete=directories)
@click.option("-t", "--tag", default="ma-boot-training", show_default=True, help="Name of the image.")
@click.option(
    "--build-arg", "arguments", multiple=True, metavar="NAME[=VALUE]", help="As `docker build` has it."
)
@click.option("--platform", metavar="OS/ARCH", help="linux/arm64 for most Ascend servers, or linux/amd64.")
@click.option("--size-budget", type=click.FloatRange(min=0), metavar="GB", help="Refuse a larger image.")
@click.pass_context
def build_command(
    ctx: click.Context,
    /,
    context: str,
    tag: str,
    arguments: Sequence[str],
    platform: Optional[str],
    size_budget: Optional[float],
) -> None:
    """Builds the image of the Dockerfile in DIR, then checks it.

    \b
    Example:
      ma_boot image build --tag my-training --platform linux/arm64 .
    """
    from ma_boot.image import build, check  # the engine's SDK is for those who build images
    from ma_boot.image.container_engine import engine, image_attributes

    values = build.build_arguments(arguments, ctx.obj)
    with stopped_by_sigterm(), engine(ctx.obj) as client:
        with Console(interactive=is_interactive(ctx.obj)) as console:
            build.build(client, Path(context), tag, values, platform, console)
        size = int(image_attributes(client, tag)["Size"])
        print_lines(f"{tag}: {size / 1e9:.2f} GB")
        build.keep_within(size, size_budget, tag)
        findings = check.check(client, tag, None, None)
    print_lines(check.as_text(tag, findings))
    check.refuse(tag, findings)


@image.command(name="push")
@click.argument("name", metavar="IMAGE")
@click.option("--region", required=True, help="Region of ModelArts, as cn-north-4.")
@click.option("--organization", required=True, help="Organization in SWR.")
@click.option("--name", "repository", metavar="TEXT", help="Name in SWR; default: that of IMAGE.")
@click.option("--tag", help="Tag in SWR; default: that of IMAGE.")
@click.option("--registry", metavar="HOST", help="Another registry than SWR of the region.")
@_command
@click.pass_context
def push_command(
    ctx: click.Context,
    /,
    name: str,
    region: str,
    organization: str,
    repository: Optional[str],
    tag: Optional[str],
    registry: Optional[str],
    command: Optional[str],
) -> None:
    """Pushes IMAGE to SWR, once it passes the check, and prints the values for the job form.

    The login: SWR_USERNAME and SWR_PASSWORD, else the docker config, else a long-term login made of
    OBS_ACCESS_KEY_ID and OBS_SECRET_ACCESS_KEY.

    \b
    Example:
      ma_boot image push my-training --region cn-north-4 --organization yours
    """
    from ma_boot.image import check, push, swr  # the engine's SDK is for those who build images
    from ma_boot.image.container_engine import engine

    target = swr.target(name, region, organization, repository, tag, registry)
    with stopped_by_sigterm(), engine(ctx.obj) as client:
        login = swr.login(ctx.obj, push.configured_login(target.host), region, target.host)
        findings = check.check(client, name, None, command)
        if findings:
            print_lines(check.as_text(name, findings))
        check.refuse(name, findings)
        with Console(interactive=is_interactive(ctx.obj)) as console:
            digest = push.push(client, name, target, login, console)
    print_lines(swr.job_form(target, digest, command or "ma_boot train.py"))


@image.command(name="check")
@click.argument("name", metavar="IMAGE")
@click.option("--arch", type=click.Choice(["aarch64", "x86_64"]), help="Architecture of the job's servers.")
@_command
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_context
def check_command(
    ctx: click.Context, /, name: str, arch: Optional[str], command: Optional[str], as_json: bool
) -> None:
    """Checks IMAGE against ModelArts' rules: every finding at once; 65 if a job would fail on one.

    \b
    Example:
      ma_boot image check my-training --arch aarch64
    """
    from ma_boot.image import check  # the engine's SDK is for those who build images
    from ma_boot.image.container_engine import engine

    with stopped_by_sigterm(), engine(ctx.obj) as client:
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
