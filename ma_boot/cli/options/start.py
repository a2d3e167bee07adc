"""Options for starting the processes: rendezvous, number, directory, cores."""

from __future__ import annotations

import click

from ma_boot.cli.options.option import RunOption, RunVariable, Topic

# Of the room platforms, which the help does not load; a test compares them.
PLATFORMS = ["kubeflow", "mindcluster", "modelarts", "openmpi", "slurm", "torchrun", "volcano", "bare"]

START = Topic(
    "start",
    "how the processes start and find each other",
    (
        "ma_boot --rendezvous mindspore --bind-cores numa train.py",
        "ma_boot --per-node torchrun --nproc_per_node '$MABOOT_NPROC' train.py",
    ),
    (
        RunOption(
            "--platform",
            type=click.Choice(PLATFORMS),
            metavar="NAME",
            help="What runs the job: modelarts, volcano, mindcluster, kubeflow, torchrun, slurm, openmpi or "
            "bare; default: by its variables.",
        ),
        RunOption(
            "--rendezvous",
            type=click.Choice(["rank-table", "mindspore", "torch", "mpi", "none"]),
            common=True,
            help="How the processes find each other; default: rank-table, or none with --per-node.",
        ),
        RunVariable(
            "--rendezvous-port",
            metavar="PORT",
            type=click.IntRange(1, 65535),
            help="Rendezvous port on the first node; default: 8118 for mindspore, else 29500.",
        ),
        RunOption(
            "--per-node",
            is_flag=True,
            help="Start COMMAND once per node, if it starts the processes itself, like torchrun. Its "
            "arguments may contain $MABOOT_NNODES, $MABOOT_NODE_RANK, $MABOOT_NPROC, $MABOOT_WORLD_SIZE, "
            "$MABOOT_MASTER_ADDR and $MABOOT_MASTER_PORT.",
        ),
        RunOption(
            "--per-device",
            is_flag=True,
            help="Start COMMAND once per device, though it looks as if it starts the processes itself.",
        ),
        RunVariable(
            "--non-sink",
            is_flag=True,
            help="MindSpore's non-sink mode, for mpi: GRAPH_OP_RUN=1, HCCL_WHITELIST_DISABLE=1.",
        ),
        RunOption(
            "--workdir",
            type=click.Choice(["shared", "code", "per-rank"]),
            help="Run the processes where ma_boot was started (shared), beside the script (code), or each in "
            "a new device_<rank>, the default with --rank-start and the like.",
        ),
        RunVariable(
            "--copy-code",
            metavar="GLOB",
            multiple=True,
            help="Files next to the script to copy into each device_<rank>.",
        ),
        RunOption(
            "--bind-cores",
            type=click.Choice(["none", "equal", "numa"]),
            default="none",
            help="Bind ranks to cores: equal shares, or those close to the rank's device.",
        ),
    ),
)
