"""Options for rehearsals: the job on this machine, without the platform."""

from __future__ import annotations

import click

from ma_boot.cli.options.completion import DIR, FILE
from ma_boot.cli.options.option import LOCAL, PROCESS, SECONDS, RunOption, RunVariable, Topic

REHEARSAL_DIR = "ma_boot-rehearsal"
REHEARSAL = Topic(
    "rehearsal",
    "the job on this machine, without the platform",
    (
        "ma_boot --local --nodes 2 --devices-per-node 4 train.py",
        "ma_boot --local --job job.yaml",
        "ma_boot --local --obs-root obs --input data_url=obs://bucket/data/ train.py",
    ),
    (
        RunOption("--local", is_flag=True, common=True, help="Rehearse the job on this machine."),
        RunOption(
            "--job",
            **FILE,
            requires=(LOCAL,),
            help="The job to rehearse: a job file (job.yaml).",
        ),
        RunOption(
            "--nodes",
            metavar="N",
            type=click.IntRange(1, 1024),
            default=1,
            requires=(LOCAL,),
            common=True,
            help="Number of nodes of a rehearsal.",
        ),
        RunOption(
            "--devices-per-node",
            metavar="N",
            type=click.IntRange(1, 16),
            default=1,
            requires=(LOCAL,),
            common=True,
            help="Cards per node of a rehearsal.",
        ),
        RunOption(
            "--rank-table-delay",
            **SECONDS,
            default=2,
            requires=(LOCAL,),
            help="Delay until the rank table is completed.",
        ),
        RunOption(
            "--code-dir", **DIR, requires=(LOCAL,), help="The job's code directory; default: that of COMMAND."
        ),
        RunVariable(
            "--exclude",
            multiple=True,
            metavar="PATTERN",
            requires=(LOCAL,),
            help="Parts of the code not to copy to the nodes, as in .gitignore.",
        ),
        RunOption(
            "--rehearsal-dir",
            **DIR,
            default=REHEARSAL_DIR,
            requires=(LOCAL,),
            help="Directory of the simulated nodes.",
        ),
        RunVariable(
            "--keep-rehearsals",
            type=click.IntRange(1),
            default=20,
            metavar="N",
            requires=(LOCAL,),
            help="Of the rehearsals there, only the N newest are kept.",
        ),
        RunOption(
            "--input",
            multiple=True,
            metavar="NAME=OBS",
            requires=(LOCAL,),
            help="An input of the job form, e.g. data_url=obs://bucket/data/.",
        ),
        RunOption(
            "--output",
            multiple=True,
            metavar="NAME=OBS",
            requires=(LOCAL,),
            help="An output of the job form.",
        ),
        RunOption(
            "--append-args",
            metavar="ARGS",
            requires=(LOCAL,),
            help="Arguments that the platform appends to COMMAND.",
        ),
        RunOption(
            "--sandbox",
            type=click.Choice(["bwrap"]),
            requires=(LOCAL, PROCESS),
            help="Mount /home/ma-user, /cache and /user/config with bubblewrap.",
        ),
    ),
)
