"""Nodes as containers of the job's own image."""

from ma_boot.rehearsal.containers.container_plan import CODE_DIRECTORY, ContainerOptions
from ma_boot.rehearsal.containers.engine_calls import check_runs_here
from ma_boot.rehearsal.containers.guard import removing
from ma_boot.rehearsal.containers.job_containers import JobContainers, create_containers

__all__ = [
    "CODE_DIRECTORY",
    "ContainerOptions",
    "JobContainers",
    "check_runs_here",
    "create_containers",
    "removing",
]
