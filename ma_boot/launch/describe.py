"""Formats a launch plan as text and as JSON values."""

from __future__ import annotations

import shlex
from typing import Any, Dict, List, Mapping, Sequence

from ma_boot.environment import difference
from ma_boot.launch.launch_plan import LaunchPlan
from ma_boot.redact import masked
from ma_boot.wording import counted


def described(plan: LaunchPlan, outside: Mapping[str, str]) -> Dict[str, Any]:
    """The plan as JSON values; environments are given as differences from `outside`, with secrets masked.

    The value of a removed variable is None.
    """
    return {
        "node": plan.node_rank,
        "world_size": plan.world_size,
        "workers": [
            {
                "label": worker.label,
                "rank": worker.rank,
                "local_rank": worker.local_rank,
                "argv": masked(worker.argv),
                "cwd": worker.cwd,
                "log_file": worker.log_file,
                "shown": worker.shown,
                "cores": list(worker.cores),
                "environment": masked(dict(difference(outside, worker.environ))),
            }
            for worker in plan.workers
        ],
    }


def plan_text(descriptions: Sequence[Mapping[str, Any]]) -> str:
    """The plans of some nodes as text; `+` sets a variable, `-` removes it."""
    lines: List[str] = []
    for node in descriptions:
        lines.append(
            f"node {node['node']}: {counted(len(node['workers']), 'process', 'processes')}, "
            f"world size {node['world_size']}"
        )
        for worker in node["workers"]:
            lines.append(f"  {worker['label']}")
            lines.append(f"    argv  {shlex.join(worker['argv'])}")
            lines.append(f"    cwd   {worker['cwd']}")
            lines.append(f"    log   {worker['log_file']}" + ("" if worker["shown"] else " (only)"))
            if worker["cores"]:
                lines.append(f"    cores {','.join(map(str, worker['cores']))}")
            for name, value in worker["environment"].items():
                lines.append(f"    - {name}" if value is None else f"    + {name}={value}")
    return "\n".join(lines)
