"""Options for how the processes start: how they find each other, how many, where."""

from __future__ import annotations

import click

from ma_boot.cli.options.option import RunOption, Topic
from ma_boot.launch.launch_plan import RENDEZVOUS, WORKDIRS
from ma_boot.modelarts.cpu_affinity import BIND_CORES

START = Topic(
    "start",
    "how the processes start and find each other",
    (
        "ma_boot --rendezvous mindspore --bind-cores numa train.py",
        "ma_boot --per-node torchrun --nproc_per_node '$MABOOT_NPROC' train.py",
    ),
    (
        RunOption(
            "--rendezvous",
            type=click.Choice(RENDEZVOUS),
            everyday="rank-table, mindspore, torch, mpi or none.",
            help="How the processes find each other; if not given rank-table, or none with --per-node.",
        ),
        RunOption(
            "--rendezvous-port",
            metavar="PORT",
            type=click.IntRange(1, 65535),
            help="Port of the first node where they meet: 8118 for mindspore, else 29500.",
        ),
        RunOption(
            "--per-node",
            is_flag=True,
            help="Start COMMAND once on each node: it starts the processes itself, as torchrun does. Its "
            "arguments may name $MABOOT_NNODES, $MABOOT_NODE_RANK, $MABOOT_NPROC, $MABOOT_WORLD_SIZE, "
            "$MABOOT_MASTER_ADDR and $MABOOT_MASTER_PORT.",
        ),
        RunOption(
            "--non-sink",
            is_flag=True,
            help="MindSpore's non-sink mode, with mpi: GRAPH_OP_RUN=1, HCCL_WHITELIST_DISABLE=1.",
        ),
        RunOption(
            "--workdir",
            type=click.Choice(WORKDIRS),
            help="Where the processes run: here (shared), or each in a fresh device_<rank>, which is what "
            "--rank-start and its like mean.",
        ),
        RunOption(
            "--copy-code",
            metavar="GLOB",
            multiple=True,
            help="Files beside the script to copy into each device_<rank>.",
        ),
        RunOption(
            "--bind-cores",
            type=click.Choice(BIND_CORES),
            default="none",
            help="Cores of each rank: equal shares, or those near its device.",
        ),
    ),
)
