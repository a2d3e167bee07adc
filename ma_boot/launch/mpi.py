"""Ranks that Open MPI starts: one `mpirun` for the node, as MindSpore's guides have it."""

from __future__ import annotations

import os.path
from typing import Dict, Optional

from ma_boot.environment import applied
from ma_boot.errors import ConfigError
from ma_boot.launch.launch_plan import Node, WorkerSpec


def mpirun(node: Node, more: Dict[str, Optional[str]]) -> WorkerSpec:
    """The one process of the node. MPI tells the ranks who they are; a rank table would contradict it.

    The number of slots is said, since Open MPI would count cores; the ranks are bound to none of them, and
    each line tells its rank (`[1,3]<stdout>: ...`). Raises `ConfigError` for a job of several nodes.
    """
    if node.job.node_count > 1:
        raise ConfigError(
            f"--rendezvous mpi is for jobs of one node, this one has {node.job.node_count}: mpirun would "
            "need an sshd on every node, which ModelArts does not start; choose another --rendezvous"
        )
    count = str(len(node.placement.ranks))
    root = ("--allow-run-as-root",) if node.is_root else ()
    options = ("--bind-to", "none", "--tag-output", "--host", f"localhost:{count}", "-n", count)
    patch = {"RANK_TABLE_FILE": None, "RANK_ID": None, "RANK_SIZE": str(node.placement.world_size), **more}
    return WorkerSpec(
        label="mpirun",
        argv=("mpirun", *root, *options, *node.argv),
        cwd=node.cwd,
        environ=applied(node.environ, tuple(patch.items())),
        log_file=os.path.join(node.job.log_dir, f"{node.job.name}-mpirun.txt"),
    )
