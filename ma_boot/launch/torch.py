"""Rendezvous by PyTorch's `env://`, with the variables of `torchrun`."""

from __future__ import annotations

from typing import Dict, Optional, Sequence

from ma_boot.launch.launch_plan import Node
from ma_boot.launch.rank_table import NO_TABLE

TORCH_PORT = 29500  # torchrun's default


def of_rank(node: Node, local_rank: int) -> Dict[str, Optional[str]]:
    """The variables of one rank; rank 0 listens on the master's address."""
    return {
        **of_node(node),
        "RANK": str(node.placement.ranks[local_rank]),
        "WORLD_SIZE": str(node.placement.world_size),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(len(node.placement.ranks)),
        "GROUP_RANK": str(node.job.group_rank),
    }


def of_node(node: Node) -> Dict[str, Optional[str]]:
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
