"""Options for a rehearsal in containers of the job's image."""

from __future__ import annotations

import re
from typing import Optional

import click

from ma_boot.cli.options.option import DOCKER, LOCAL, RunOption, Topic


def _bytes(ctx: click.Context, param: click.Parameter, value: Optional[str]) -> Optional[int]:
    if value is None:
        return None
    match = re.match(r"(\d+)([kmg]?)$", value.lower())
    if match is not None:
        return int(match.group(1)) << {"": 0, "k": 10, "m": 20, "g": 30}[match.group(2)]
    raise click.BadParameter(f"found {value!r}, expected bytes, or a number with k, m or g, as 512m")


CONTAINERS = Topic(
    "containers",
    "a rehearsal in containers of the job's image",
    (
        "ma_boot --local --runner docker --image my-training --nodes 2 train.py",
        "ma_boot --local --runner docker --image my-training --memory 64g train.py",
    ),
    (
        RunOption(
            "--runner",
            type=click.Choice(["process", "docker"]),
            default="process",
            needs=(LOCAL,),
            help="Each node is a process, or a container of --image.",
        ),
        RunOption("--image", metavar="IMAGE", needs=(LOCAL, DOCKER), help="The job's image."),
        RunOption(
            "--offline",
            is_flag=True,
            needs=(LOCAL, DOCKER),
            help="No Internet for the nodes; --obs-root is served.",
        ),
        RunOption(
            "--memory",
            callback=_bytes,
            metavar="SIZE",
            needs=(LOCAL, DOCKER),
            help="Memory of a node, as 512m or 64g.",
        ),
        RunOption(
            "--shm-size",
            callback=_bytes,
            metavar="SIZE",
            default="2g",
            needs=(LOCAL, DOCKER),
            help="/dev/shm of a node.",
        ),
        RunOption("--keep", is_flag=True, needs=(LOCAL, DOCKER), help="Leave the containers for a look."),
    ),
)
