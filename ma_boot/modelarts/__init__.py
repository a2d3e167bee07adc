"""What ModelArts and the machine tell a node, and what they expect of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ma_boot.modelarts.channels import Channel, ChannelContent, read_channels
from ma_boot.modelarts.driver import call_post_stop, start_slogd
from ma_boot.modelarts.findings import ERROR, OK, WARNING, Finding, failed
from ma_boot.modelarts.job import (
    JOB_TOKEN,
    PLATFORM_GID,
    PLATFORM_HOME,
    PLATFORM_UID,
    TABLE_NAME,
    JobEnvironment,
    instance_name,
    read_job,
)
from ma_boot.modelarts.ports import check_free, free_port
from ma_boot.modelarts.rank_table_file import wait_until_completed
from ma_boot.modelarts.this_container import look_around, with_machine
from path_mapping.when_used import when_used

if TYPE_CHECKING:
    from ma_boot.modelarts.cpu_affinity import bound_cores, read_machine
    from ma_boot.modelarts.dns import address_of, own_address
    from ma_boot.modelarts.own_cards import card_addresses, own_super_pod, tool_address
    from ma_boot.modelarts.route_plan import planned_route
else:  # few jobs need these
    __getattr__ = when_used(
        __name__,
        {
            "cpu_affinity": ("bound_cores", "read_machine"),
            "dns": ("address_of", "own_address"),
            "own_cards": ("card_addresses", "own_super_pod", "tool_address"),
            "route_plan": ("planned_route",),
        },
    )

__all__ = [
    "ERROR",
    "JOB_TOKEN",
    "OK",
    "PLATFORM_GID",
    "PLATFORM_HOME",
    "PLATFORM_UID",
    "TABLE_NAME",
    "WARNING",
    "Channel",
    "ChannelContent",
    "Finding",
    "JobEnvironment",
    "address_of",
    "bound_cores",
    "call_post_stop",
    "card_addresses",
    "check_free",
    "failed",
    "free_port",
    "instance_name",
    "look_around",
    "own_address",
    "own_super_pod",
    "planned_route",
    "read_channels",
    "read_job",
    "read_machine",
    "start_slogd",
    "tool_address",
    "wait_until_completed",
    "with_machine",
]
