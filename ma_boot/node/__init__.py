"""Boots one node of a job: the phases in their order, from the boot command to the exit code."""

from ma_boot.node.boot import boot as boot, plan_only as plan_only
from ma_boot.node.launch_phase import working_directory as working_directory
from ma_boot.node.rank_table_phase import RankOptions as RankOptions
from ma_boot.node.request import (
    BootRequest as BootRequest,
    as_options as as_options,
    as_variables as as_variables,
    boot_command as boot_command,
    check_platform as check_platform,
    conflicts as conflicts,
    requested as requested,
    shown as shown,
)
from ma_boot.node.run_phase import RunOptions as RunOptions
from ma_boot.node.world import World as World
