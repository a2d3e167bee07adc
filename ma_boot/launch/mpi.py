"""Rendezvous by Open MPI: one `mpirun` on the node starts the ranks, as in MindSpore's guides."""

from __future__ import annotations

import os.path
from typing import Dict, Optional

from ma_boot.environment import applied
from ma_boot.errors import ConfigError
from ma_boot.launch.launch_plan import Node, WorkerSpec


def mpirun(node: Node, more: Dict[str, Optional[str]]) -> WorkerSpec:
    """The process `mpirun`, without the variables of a rank table, which MPI's ranks could contradict.

    The number of slots is given, since Open MPI would count cores; ranks are not bound to cores, and their
    output is tagged (`[1,3]<stdout>: ...`). Raises `ConfigError` for a job of several nodes.
    """
    if node.job.node_count > 1:
        raise ConfigError(
            f"--rendezvous mpi is for jobs of one node, this one has {node.job.node_count}: mpirun would "
            "need an sshd on every node, which ModelArts does not start; use another --rendezvous"
        )
    count = str(len(node.placement.ranks))
    root = ("--allow-run-as-root",) if node.is_root else ()
    options = ("--bind-to", "none", "--tag-output", "--host", f"localhost:{count}", "-n", count)
    patch = {"RANK_TABLE_FILE": None, "RANK_ID": None, "RANK_SIZE": str(node.placement.world_size), **more}
    return WorkerSpec(
        label="mpirun",
        argv=("mpirun", *root, *options, *node.command.argv),
        cwd=node.cwd,
        environ=applied(node.environ, tuple(patch.items())),
        log_file=os.path.join(node.job.log_dir, f"{node.job.name}-mpirun.txt"),
    )
