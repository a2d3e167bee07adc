"""Pods of Volcano jobs, and their rank tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.functional.node import Node
from tests.unit.rank_table.documents import servers

RANKS = ("python", "-c", "import os; print(os.environ['RANK_ID'], 'of', os.environ['RANK_SIZE'])")


class VolcanoPod(Node):
    """A pod of a Volcano job with a rank table; no variable is ModelArts'."""

    def environ(self) -> dict[str, str]:
        """Sets the variables of Volcano's plugins env and svc."""
        return {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "VC_TASK_INDEX": str(self.index),
            "VK_TASK_INDEX": str(self.index),
            "RANK_TABLE_FILE": str(self.config),
            **self.variables,
        }

    def plan(self, *options: str) -> dict[str, Any]:
        """Returns the plan of this pod."""
        ended = self.boot("--plan", "--json", *options, *RANKS)
        assert ended.code == 0, ended.output
        node: dict[str, Any] = json.loads(ended.output[ended.output.index("{") :])["nodes"][0]
        return node


def table(*order: int, devices: int = 2, **more: Any) -> dict[str, Any]:
    """Returns a completed table of servers 10.0.0.N in this order; ranks stay with the servers."""
    document = servers(max(order) + 1, devices, server_count=str(len(order)), **more)
    return {**document, "server_list": [document["server_list"][place] for place in order]}
