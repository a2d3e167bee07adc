"""Options for the ranks of a node: rank table and devices."""

from __future__ import annotations

from typing import Any, Tuple

import click

from ma_boot.cli.options.completion import FILE
from ma_boot.cli.options.option import SECONDS, RunOption, RunVariable, Topic

PRODUCT = click.Choice(["910a", "910b", "a3"])
RANK_ORDER = click.Choice(["pod", "server"])


def _devices(ctx: click.Context, param: click.Parameter, value: Any) -> Tuple[int, ...]:
    """Sorted; on 910 servers the devices of a job must be adjacent (PyTorch's guide for NPUs)."""
    parts = str(value).split(",") if value else []
    if not all(part.strip().isdecimal() for part in parts):
        raise click.BadParameter(f"found {value!r}, expected numbers such as 1,2")
    devices = tuple(sorted(map(int, parts)))
    if len(set(devices)) != len(devices):
        raise click.BadParameter(f"found {value!r}, which contains a device twice")
    if devices and devices[-1] - devices[0] + 1 != len(devices):
        raise click.BadParameter(f"found {value!r}, expected adjacent devices such as 1,2 or 2,3")
    return devices


RANKS = Topic(
    "ranks",
    "ranks of a node and their devices",
    (
        "ma_boot --devices 1,2 train.py",
        "ma_boot --rank-table-file hccl_16p.json --rank-size 16 --rank-start 8 train.py",
    ),
    (
        RunVariable(
            "--rank-order", type=RANK_ORDER, default="pod", help="Order ranks by pod number or by server_id."
        ),
        RunOption(
            "--devices",
            metavar="LIST",
            callback=_devices,
            common=True,
            help="Adjacent devices of each node to use, e.g. 1,2.",
        ),
        RunOption(
            "--device-id",
            type=click.Choice(["logical", "physical"]),
            default="logical",
            help="DEVICE_ID: number within the container, or within the server.",
        ),
        RunVariable("--product", type=PRODUCT, help="Ascend product whose rules for rank tables apply."),
        RunVariable(
            "--host-nic-ip", metavar="TEXT", help="host_nic_ip of each server (reserve, for MindSpore 1.x)."
        ),
        RunOption(
            "--rank-table-timeout", **SECONDS, default=1800, help="How long to wait for the rank table."
        ),
        RunOption(
            "--rank-table-file",
            **FILE,
            help="Rank table to use instead of the platform's; not copied if it is template one.",
        ),
        RunOption(
            "--rank-size",
            metavar="N",
            type=click.IntRange(min=1),
            help="Number of ranks in --rank-table-file, as in X2MindSpore's start script.",
        ),
        RunOption(
            "--rank-start", metavar="RANK", type=click.IntRange(min=0), help="First rank of this machine."
        ),
        RunOption(
            "--device-start", metavar="DEVICE", type=click.IntRange(min=0), help="Device of the first rank."
        ),
    ),
    "See `ma_boot rank-table --help` for working with rank tables without a job.",
)
