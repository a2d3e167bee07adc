"""Nodes as containers of the job's own image."""

from ma_boot.rehearsal.containers.container_plan import (
    CODE_DIRECTORY,
    ContainerOptions,
    ContainerPlan,
    JobInContainers,
    ObsSettings,
    job_on_network,
    kept_note,
    own_obs,
    plan_network,
    plan_node,
    plan_obs,
)
from ma_boot.rehearsal.containers.engine_calls import (
    check_runs_here,
    create_container,
    create_network,
    start_serving,
)
from ma_boot.rehearsal.containers.guard import removing

__all__ = [
    "CODE_DIRECTORY",
    "ContainerOptions",
    "ContainerPlan",
    "JobInContainers",
    "ObsSettings",
    "check_runs_here",
    "create_container",
    "create_network",
    "job_on_network",
    "kept_note",
    "own_obs",
    "plan_network",
    "plan_node",
    "plan_obs",
    "removing",
    "start_serving",
]
