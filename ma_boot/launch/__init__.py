"""From the job, its ranks and the command to a launch plan: a module for each rendezvous. Pure."""

from ma_boot.launch.arguments import expanded
from ma_boot.launch.describe import described, plan_text
from ma_boot.launch.launch_plan import (
    DEVICE_IDS,
    RENDEZVOUS,
    WORKDIRS,
    LaunchPlan,
    Node,
    Placement,
    Way,
    WorkerSpec,
    placed_by_count,
)
from ma_boot.launch.worker_specs import plan_launch, with_cores, with_rank_dirs, with_tee

__all__ = [
    "DEVICE_IDS",
    "RENDEZVOUS",
    "WORKDIRS",
    "LaunchPlan",
    "Node",
    "Placement",
    "Way",
    "WorkerSpec",
    "described",
    "expanded",
    "placed_by_count",
    "plan_launch",
    "plan_text",
    "with_cores",
    "with_rank_dirs",
    "with_tee",
]
