"""Plans the processes of a node from job, ranks and command: a module for each rendezvous. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ma_boot.launch.launch_plan import LaunchOptions, LaunchPlan, Node, Placement, WorkerSpec, placed_by_count
from ma_boot.launch.mindspore import MINDSPORE_PORT
from ma_boot.launch.torch import TORCH_PORT
from ma_boot.launch.worker_specs import plan_launch, with_cores, with_rank_dirs, with_tee
from path_mapping.when_used import when_used

if TYPE_CHECKING:
    from ma_boot.launch.describe import described, plan_text
else:  # only `--plan`
    __getattr__ = when_used(__name__, {"describe": ("described", "plan_text")})

__all__ = [
    "MINDSPORE_PORT",
    "TORCH_PORT",
    "LaunchOptions",
    "LaunchPlan",
    "Node",
    "Placement",
    "WorkerSpec",
    "described",
    "placed_by_count",
    "plan_launch",
    "plan_text",
    "with_cores",
    "with_rank_dirs",
    "with_tee",
]
