"""Rendezvous by the rank table, which HCCL reads."""

from __future__ import annotations

import os.path
from typing import Dict, Optional

from ma_boot.launch.launch_plan import Node

CONNECT_TIMEOUT = "1800"  # seconds, as in ModelArts' launcher; nodes can take longer to start than HCCL's 120
NO_TABLE: Dict[str, Optional[str]] = {"RANK_TABLE_FILE": None, "RANK_ID": None, "RANK_SIZE": None}


def of_rank(node: Node, local_rank: int) -> Dict[str, Optional[str]]:
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


def of_node(node: Node) -> Dict[str, Optional[str]]:
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
