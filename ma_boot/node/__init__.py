"""Boots one node of a job: the phases in their order, from the boot command to the exit code."""

from ma_boot.node.boot import boot, plan_only
from ma_boot.node.mapping import NodeTransfers, TransferOptions, configured_store, load_mapping
from ma_boot.node.rank_table_phase import RankOptions
from ma_boot.node.request import BootRequest, as_options, check_platform, conflicts, requested
from ma_boot.node.transfers import (
    CANCEL_SECONDS,
    boot_error,
    downloading_inputs,
    look_at_outputs,
    upload_outputs,
)
from ma_boot.node.world import World

__all__ = [
    "CANCEL_SECONDS",
    "BootRequest",
    "NodeTransfers",
    "RankOptions",
    "TransferOptions",
    "World",
    "as_options",
    "boot",
    "boot_error",
    "check_platform",
    "configured_store",
    "conflicts",
    "downloading_inputs",
    "load_mapping",
    "look_at_outputs",
    "plan_only",
    "requested",
    "upload_outputs",
]
