"""Options for rehearsals in containers of the job's image."""

from __future__ import annotations

from typing import Optional

import click

from ma_boot.cli.options.option import DOCKER, LOCAL, RunOption, RunVariable, Topic


def _bytes(ctx: click.Context, param: click.Parameter, value: Optional[str]) -> Optional[int]:
    if value is None:
        return None
    power = {"k": 10, "m": 20, "g": 30}.get(value[-1:].lower(), 0)
    number = value[:-1] if power else value
    if number.isascii() and number.isdecimal():
        return int(number) << power
    raise click.BadParameter(f"found {value!r}, expected a number of bytes, or one with k, m or g (512m)")


CONTAINERS = Topic(
    "containers",
    "rehearsals in containers of the job's image",
    (
        "ma_boot --local --runner docker --image my-training --nodes 2 train.py",
        "ma_boot --local --runner docker --image my-training --obs-root obs train.py",
    ),
    (
        RunOption(
            "--runner",
            type=click.Choice(["process", "docker"]),
            default="process",
            requires=(LOCAL,),
            help="Run each node as a process, or as a container of --image.",
        ),
        RunOption("--image", metavar="IMAGE", requires=(LOCAL, DOCKER), help="The job's image."),
        RunVariable(
            "--memory",
            callback=_bytes,
            metavar="SIZE",
            requires=(LOCAL, DOCKER),
            help="Memory limit of a node, e.g. 512m or 64g.",
        ),
        RunVariable(
            "--shm-size",
            callback=_bytes,
            metavar="SIZE",
            default="2g",
            requires=(LOCAL, DOCKER),
            help="Size of a node's /dev/shm.",
        ),
        RunVariable(
            "--boot-shell",
            type=click.Choice(["none", "sh", "bash"]),
            default="none",
            requires=(LOCAL, DOCKER),
            help="Start the boot command by a shell, as the platform may do.",
        ),
        RunVariable(
            "--boot-prefix",
            metavar="TEXT",
            requires=(LOCAL, DOCKER),
            help="What the job form has before `ma_boot`, e.g. 'cd code && exec'.",
        ),
        RunVariable("--keep", is_flag=True, requires=(LOCAL, DOCKER), help="Keep the containers afterwards."),
    ),
)
