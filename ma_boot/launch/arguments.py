"""The node's place in the job, for arguments of a command that starts its processes itself."""

from __future__ import annotations

import re
from typing import Dict, Tuple

from ma_boot.launch.launch_plan import Node

_NAME = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def node_variables(node: Node) -> Dict[str, str]:
    """The variables by name; they are set for the command as well."""
    address, port = node.master or ("127.0.0.1", 0)
    return {
        "MABOOT_NNODES": str(node.job.node_count),
        "MABOOT_NODE_RANK": str(node.job.group_rank),
        "MABOOT_NPROC": str(len(node.placement.ranks)),
        "MABOOT_WORLD_SIZE": str(node.placement.world_size),
        "MABOOT_MASTER_ADDR": address,
        "MABOOT_MASTER_PORT": str(port),
    }


def expanded(node: Node) -> Tuple[str, ...]:
    """The command with `$MABOOT_...` and `$MA_JOB_DIR` replaced, since no shell is there to do it.

    Every other `$` stays: the command may have a meaning of its own for it.
    """
    values = {**node_variables(node), "MA_JOB_DIR": node.job.job_dir}

    def value(match: re.Match[str]) -> str:
        return values.get(match.group(1) or match.group(2), match.group(0))

    return tuple(_NAME.sub(value, argument) for argument in node.argv)
