"""Options for the ranks of a node: the rank table, and the devices."""

from __future__ import annotations

from typing import Any, Tuple

import click

from ma_boot.cli.options.completion import FILE
from ma_boot.cli.options.option import SECONDS, RunOption, Topic
from ma_boot.launch.launch_plan import DEVICE_IDS
from ma_boot.rank_table import PRODUCTS, RANK_ORDERS


def _devices(ctx: click.Context, param: click.Parameter, value: Any) -> Tuple[int, ...]:
    """Sorted; 910 servers want the devices of a job beside each other (PyTorch's guide for NPU)."""
    parts = str(value).split(",") if value else []
    if not all(part.strip().isdecimal() for part in parts):
        raise click.BadParameter(f"found {value!r}, expected numbers as 1,2")
    devices = tuple(sorted(map(int, parts)))
    if len(set(devices)) != len(devices):
        raise click.BadParameter(f"found {value!r}, which names a device twice")
    if devices and devices[-1] - devices[0] + 1 != len(devices):
        raise click.BadParameter(f"found {value!r}, expected devices that are adjacent, as 1,2 or 2,3")
    return devices


RANKS = Topic(
    "ranks",
    "the ranks of a node and their devices, by the rank table",
    (
        "ma_boot --devices 1,2 train.py",
        "ma_boot --rank-table-file hccl_16p.json --rank-size 16 --rank-start 8 train.py",
    ),
    (
        RunOption(
            "--rank-order",
            type=click.Choice(RANK_ORDERS),
            default="pod",
            help="Ranks by the number of the pod, or by server_id.",
        ),
        RunOption(
            "--devices",
            metavar="LIST",
            callback=_devices,
            everyday="Devices of each node to use, as 1,2.",
            help="Devices of each node to use, adjacent ones, as 1,2.",
        ),
        RunOption(
            "--device-id",
            type=click.Choice(DEVICE_IDS),
            default="logical",
            help="DEVICE_ID: place in this container, or number in the machine.",
        ),
        RunOption(
            "--product", type=click.Choice(PRODUCTS), help="Ascend product, for the rules of its rank tables."
        ),
        RunOption(
            "--host-nic-ip", metavar="TEXT", help="host_nic_ip of each server (reserve, for MindSpore 1.x)."
        ),
        RunOption(
            "--rank-table-timeout",
            **SECONDS,
            default=1800,
            help="Longest wait for the rank table.",
        ),
        RunOption(
            "--rank-table-file",
            **FILE,
            help="The rank table, instead of the platform's; template one is used where it is.",
        ),
        RunOption(
            "--rank-size",
            metavar="N",
            type=click.IntRange(min=1),
            help="Number of ranks in --rank-table-file, as the start scripts of X2MindSpore take it.",
        ),
        RunOption(
            "--rank-start", metavar="RANK", type=click.IntRange(min=0), help="First rank of this machine."
        ),
        RunOption(
            "--device-start", metavar="DEVICE", type=click.IntRange(min=0), help="Device of the first rank."
        ),
    ),
    "See `ma_boot rank-table --help` for rank tables without a job.",
)
