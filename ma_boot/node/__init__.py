"""Boots one node of a job: the phases in their order, from the boot command to the exit code."""

from ma_boot.node.boot import boot, plan_only
from ma_boot.node.job_phase import JobOptions
from ma_boot.node.rank_table_phase import RankOptions
from ma_boot.node.request import (
    BootRequest,
    as_options,
    check_platform,
    conflicts,
    requested,
    shown,
)
from ma_boot.node.run_phase import RunOptions
from ma_boot.node.world import World

__all__ = [
    "BootRequest",
    "JobOptions",
    "RankOptions",
    "RunOptions",
    "World",
    "as_options",
    "boot",
    "check_platform",
    "conflicts",
    "plan_only",
    "requested",
    "shown",
]
