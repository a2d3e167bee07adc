"""The variables of each kind of rendezvous, for a rank and for a command that starts the ranks itself."""

from __future__ import annotations

import os.path
from typing import Callable, Dict, Optional, Sequence

from ma_boot.environment import applied
from ma_boot.errors import ConfigError
from ma_boot.launch.launch_plan import Node, WorkerSpec

Variables = Dict[str, Optional[str]]
CONNECT_TIMEOUT = "1800"  # seconds, as in ModelArts' launcher; nodes can take longer to start than HCCL's 120
NO_TABLE: Variables = {"RANK_TABLE_FILE": None, "RANK_ID": None, "RANK_SIZE": None}
TORCH_PORT = 29500  # torchrun's default
MINDSPORE_PORT = 8118  # msrun's default


def rank_table_of_rank(node: Node, local_rank: int) -> Variables:
    """The variables of one rank; the user's values for HCCL's timeout and the process log are kept."""
    rank = str(node.placement.ranks[local_rank])
    log_path = os.path.join(node.job.log_dir, node.job.name, "ascend", "process_log", f"rank_{rank}")
    return {
        "RANK_TABLE_FILE": node.placement.table_file,
        "RANK_ID": rank,
        "RANK_SIZE": str(node.placement.world_size),
        "JOB_ID": node.job.name,
        "HCCL_CONNECT_TIMEOUT": node.environ.get("HCCL_CONNECT_TIMEOUT") or CONNECT_TIMEOUT,
        "ASCEND_PROCESS_LOG_PATH": node.environ.get("ASCEND_PROCESS_LOG_PATH") or log_path,
    }


def rank_table_of_node(node: Node) -> Variables:
    """The variables of a command that starts the ranks itself.

    `RANK_START` is the first rank of this node, as in X2MindSpore's script and ModelArts' notebook library.
    """
    return {
        "RANK_TABLE_FILE": node.placement.table_file,
        "RANK_SIZE": str(node.placement.world_size),
        "RANK_START": str(node.placement.ranks[0]),
        "RANK_ID": None,
        "HCCL_CONNECT_TIMEOUT": node.environ.get("HCCL_CONNECT_TIMEOUT") or CONNECT_TIMEOUT,
    }


def torch_of_rank(node: Node, local_rank: int) -> Variables:
    """The variables of one rank; rank 0 listens on the master's address."""
    return {
        **torch_of_node(node),
        "RANK": str(node.placement.ranks[local_rank]),
        "WORLD_SIZE": str(node.placement.world_size),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(len(node.placement.ranks)),
        "GROUP_RANK": str(node.job.group_rank),
    }


def torch_of_node(node: Node) -> Variables:
    """The address of the master; torch_npu could use a rank table instead of it."""
    address, port = node.master or ("", 0)
    return {"MASTER_ADDR": address, "MASTER_PORT": str(port), **NO_TABLE}


def of_torchrun(node: Node, variables: Dict[str, str], argv: Sequence[str]) -> Dict[str, str]:
    """What `torchrun` takes for options that are not given, so that `torchrun train.py` starts the whole job.

    `variables` are the node's place in the job. Whatever the user set counts; `--standalone` is a job of this
    node alone. The names are PyTorch's (torch/distributed/argparse_util.py).
    """
    if "--standalone" in argv:
        return {}
    defaults = {
        "PET_NNODES": variables["MABOOT_NNODES"],
        "PET_NODE_RANK": variables["MABOOT_NODE_RANK"],
        "PET_NPROC_PER_NODE": variables["MABOOT_NPROC"],
        "PET_MASTER_ADDR": variables["MABOOT_MASTER_ADDR"],
        "PET_MASTER_PORT": variables["MABOOT_MASTER_PORT"],
    }
    return {name: value for name, value in defaults.items() if name not in node.environ}


def mindspore_of_rank(node: Node, local_rank: int) -> Variables:
    """The variables of one rank."""
    return {
        **mindspore_of_node(node),
        "MS_ROLE": "MS_WORKER",
        "MS_NODE_ID": str(node.placement.ranks[local_rank]),
    }


def scheduler(node: Node) -> WorkerSpec:
    """The scheduler, which runs the same command but is not a rank."""
    return WorkerSpec(
        label="scheduler",
        argv=node.command.argv,
        cwd=node.cwd,
        environ=applied(node.environ, tuple({**mindspore_of_node(node), "MS_ROLE": "MS_SCHED"}.items())),
        log_file=os.path.join(node.job.log_dir, f"{node.job.name}-scheduler.txt"),
    )


def mindspore_of_node(node: Node) -> Variables:
    """The variables of the cluster; MindSpore would use a rank table instead of it."""
    address, port = node.master or ("", 0)
    return {
        "MS_WORKER_NUM": str(node.placement.world_size),
        "MS_SCHED_HOST": address,
        "MS_SCHED_PORT": str(port),
        **NO_TABLE,
    }


def mpirun(node: Node, more: Variables) -> WorkerSpec:
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


OF_RANK: Dict[str, Callable[[Node, int], Variables]] = {
    "rank-table": rank_table_of_rank,
    "mindspore": mindspore_of_rank,
    "torch": torch_of_rank,
    "none": lambda node, local_rank: dict(NO_TABLE),
}
OF_NODE: Dict[str, Callable[[Node], Variables]] = {
    "rank-table": rank_table_of_node,
    "mindspore": mindspore_of_node,
    "torch": torch_of_node,
    "none": lambda node: dict(NO_TABLE),
}
