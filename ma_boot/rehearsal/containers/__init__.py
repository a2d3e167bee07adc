"""Nodes as containers of the job's own image."""

from ma_boot.rehearsal.containers.container_plan import ContainerOptions as ContainerOptions
from ma_boot.rehearsal.containers.engine_calls import (
    check_runs_here as check_runs_here,
    create_containers as create_containers,
    removing as removing,
)
