"""`ma_boot image ...`: builds, checks and pushes the image of a job with a container engine."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from ma_boot.cli.help import Group
from ma_boot.cli.options.click_types import Number, directories
from ma_boot.desk.image.build import build_arguments, build_image, check_size
from ma_boot.desk.image.check import check_image, findings_json, findings_text, reject_errors
from ma_boot.desk.image.container_engine import engine, image_attributes
from ma_boot.desk.image.push import configured_login, push_image
from ma_boot.desk.image.swr import job_form, push_login, push_target
from ma_boot.errors import Stopped
from ma_boot.report.console import Console, is_interactive, print_lines


@click.group("image", cls=Group)
def image() -> None:
    """Builds an image, checks it against ModelArts' rules, pushes it to SWR.

    \b
    Example:
      ma_boot image check my-training
    """


_arch = click.option(
    "--arch", type=click.Choice(["aarch64", "x86_64"]), help="Architecture of the job's servers (its flavor)."
)
_command = click.option("--command", metavar="TEXT", help="A boot command to try, as in the job form.")


@image.command(name="build")
@click.argument("context", metavar="[DIR]", default=".", shell_complete=directories)
@click.option("-t", "--tag", default="ma-boot-training", show_default=True, help="Name of the image.")
@click.option(
    "--build-arg", "arguments", multiple=True, metavar="NAME[=VALUE]", help="As for `docker build`."
)
@click.option("--platform", metavar="OS/ARCH", help="linux/arm64 for most Ascend servers, or linux/amd64.")
@_arch
@click.option("--size-budget", type=Number(min=0), metavar="GB", help="Refuse a larger image.")
@click.pass_obj
def build_command(
    environ: Mapping[str, str],
    context: str,
    tag: str,
    arguments: Sequence[str],
    platform: str | None,
    arch: str | None,
    size_budget: float | None,
) -> None:
    """Builds the image from the Dockerfile in DIR, then checks it.

    \b
    Example:
      ma_boot image build --tag my-training --platform linux/arm64 .
    """
    values = build_arguments(arguments, environ)
    with stopped_by_sigterm(), engine(environ) as client:
        with Console(interactive=is_interactive(environ)) as console:
            build_image(client, Path(context), tag, arguments=values, platform=platform, console=console)
        size = int(image_attributes(client, tag)["Size"])
        check_size(size, size_budget, tag)
        checked = check_image(client, tag, environ, arch=arch)
    print_lines(findings_text(checked))
    reject_errors(checked)


@image.command(name="push")
@click.argument("name", metavar="IMAGE")
@click.option("--region", required=True, help="Region of ModelArts, e.g. cn-north-4.")
@click.option("--organization", required=True, help="Organization in SWR.")
@click.option("--name", "repository", metavar="TEXT", help="Name in SWR; default: IMAGE's.")
@click.option("--tag", help="Tag in SWR; default: IMAGE's.")
@click.option("--registry", metavar="HOST", help="Registry to use instead of the region's SWR.")
@_arch
@_command
@click.pass_obj
def push_command(
    environ: Mapping[str, str],
    name: str,
    region: str,
    organization: str,
    repository: str | None,
    tag: str | None,
    registry: str | None,
    arch: str | None,
    command: str | None,
) -> None:
    """Pushes IMAGE to SWR if it passes the checks, and prints the values for the job form.

    The login is SWR_USERNAME and SWR_PASSWORD, else that of the docker config, else a long-term login made
    from OBS_ACCESS_KEY_ID and OBS_SECRET_ACCESS_KEY.

    \b
    Example:
      ma_boot image push my-training --region cn-north-4 --organization yours
    """
    target = push_target(name, region, organization, name=repository, tag=tag, registry=registry)
    with stopped_by_sigterm(), engine(environ) as client:
        login = push_login(environ, configured_login(target.host), region, target.host)
        checked = check_image(client, name, environ, arch=arch, command=command)
        print_lines(findings_text(checked))
        reject_errors(checked)
        with Console(interactive=is_interactive(environ)) as console:
            digest = push_image(client, name, target, login, console)
    print_lines(job_form(target, digest, checked.architecture, command or "exec ma_boot train.py"))


@image.command(name="check")
@click.argument("name", metavar="IMAGE")
@_arch
@_command
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.pass_obj
def check_command(
    environ: Mapping[str, str], name: str, arch: str | None, command: str | None, as_json: bool
) -> None:
    """Checks IMAGE against ModelArts' rules and prints all findings; exits with 65 if one is an error.

    \b
    Example:
      ma_boot image check my-training --arch aarch64
    """
    with stopped_by_sigterm(), engine(environ) as client:
        checked = check_image(client, name, environ, arch=arch, command=command)
    formatted = findings_json if as_json else findings_text
    print_lines(formatted(checked))
    reject_errors(checked)


@contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """Raises `Stopped` on SIGTERM in the block, so that everything created in it is removed."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise Stopped(signum)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
