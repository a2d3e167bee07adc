"""Options for a rehearsal: the job on this machine, without the platform."""

from __future__ import annotations

import click

from ma_boot.cli.options.completion import DIR
from ma_boot.cli.options.option import LOCAL, PROCESS, SECONDS, RunOption, Topic

REHEARSAL = Topic(
    "rehearsal",
    "the job on this machine, without the platform",
    (
        "ma_boot --local --nodes 2 --devices-per-node 4 train.py",
        "ma_boot --local --obs-root obs --input data_url=obs://bucket/data/ train.py",
    ),
    (
        RunOption(
            "--local",
            is_flag=True,
            everyday="Rehearse the job on this machine.",
            help="Rehearse the job on this machine.",
        ),
        RunOption(
            "--nodes",
            metavar="N",
            type=click.IntRange(1, 1024),
            default=1,
            needs=(LOCAL,),
            everyday="Number of nodes of a rehearsal.",
            help="Number of nodes.",
        ),
        RunOption(
            "--devices-per-node",
            metavar="N",
            type=click.IntRange(1, 16),
            default=1,
            needs=(LOCAL,),
            everyday="Cards of each node of a rehearsal.",
            help="Cards of each node.",
        ),
        RunOption(
            "--rank-table-delay",
            **SECONDS,
            default=2,
            needs=(LOCAL,),
            help="Until the rank table is completed.",
        ),
        RunOption(
            "--code-dir",
            **DIR,
            needs=(LOCAL,),
            help="The job's code directory; if not given that of COMMAND.",
        ),
        RunOption(
            "--rehearsal-dir",
            **DIR,
            default="ma_boot-rehearsal",
            needs=(LOCAL,),
            help="Where the simulated nodes live.",
        ),
        RunOption(
            "--input",
            multiple=True,
            metavar="NAME=OBS",
            needs=(LOCAL, PROCESS),
            help="An input of the job form, as data_url=obs://bucket/data/.",
        ),
        RunOption(
            "--output",
            multiple=True,
            metavar="NAME=OBS",
            needs=(LOCAL, PROCESS),
            help="An output of the job form.",
        ),
        RunOption(
            "--append-args",
            metavar="ARGS",
            needs=(LOCAL, PROCESS),
            help="What the platform appends to COMMAND.",
        ),
        RunOption(
            "--obs-server",
            is_flag=True,
            needs=(LOCAL, PROCESS),
            help="Serve --obs-root as OBS, with keys of this run.",
        ),
        RunOption(
            "--sandbox",
            type=click.Choice(["bwrap"]),
            needs=(LOCAL, PROCESS),
            help="Show /home/ma-user, /cache, /user/config by bubblewrap.",
        ),
    ),
)
