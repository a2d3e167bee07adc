"""Rendezvous by MindSpore's dynamic cluster, with a scheduler on the first node, as with `msrun`."""

from __future__ import annotations

import os.path
from typing import Dict, Optional

from ma_boot.environment import applied
from ma_boot.launch.launch_plan import Node, WorkerSpec
from ma_boot.launch.rank_table import NO_TABLE

MINDSPORE_PORT = 8118  # msrun's default


def of_rank(node: Node, local_rank: int) -> Dict[str, Optional[str]]:
    """The variables of one rank."""
    return {**_cluster(node), "MS_ROLE": "MS_WORKER", "MS_NODE_ID": str(node.placement.ranks[local_rank])}


def of_node(node: Node) -> Dict[str, Optional[str]]:
    """The variables of a command that starts scheduler and workers itself."""
    return _cluster(node)


def scheduler(node: Node) -> WorkerSpec:
    """The scheduler, which runs the same command but is not a rank."""
    return WorkerSpec(
        label="scheduler",
        argv=node.command.argv,
        cwd=node.cwd,
        environ=applied(node.environ, tuple({**_cluster(node), "MS_ROLE": "MS_SCHED"}.items())),
        log_file=os.path.join(node.job.log_dir, f"{node.job.name}-scheduler.txt"),
    )


def _cluster(node: Node) -> Dict[str, Optional[str]]:
    """The variables of the cluster; MindSpore would use a rank table instead of it."""
    address, port = node.master or ("", 0)
    return {
        "MS_WORKER_NUM": str(node.placement.world_size),
        "MS_SCHED_HOST": address,
        "MS_SCHED_PORT": str(port),
        **NO_TABLE,
    }
