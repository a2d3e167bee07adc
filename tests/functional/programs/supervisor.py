"""Supervises two ranks without the rest of a boot: ROOT LIMITS(json) adopt|- COMMAND..."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from ma_boot.node.launch.launch_plan import WorkerSpec
from ma_boot.node.supervisor.supervise import Limits, supervise
from ma_boot.processes.children import adopt_orphans
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.console import Console
from ma_boot.report.journal import Journal

root, limits, adopt, *command = sys.argv[1:]
if adopt == "adopt":
    adopt_orphans()
specs = [
    WorkerSpec(
        f"rank {rank}", (sys.executable, *command), root, {"RANK_ID": str(rank)},
        str(Path(root, f"rank_{rank}.txt")), rank, rank,
    )
    for rank in range(2)
]  # fmt: skip
with SignalInbox() as inbox, Console() as console:
    console.line(f"supervisor {os.getpid()}")
    result = supervise(specs, Limits(**json.loads(limits)), inbox, Journal(console), {}, "")
    console.line(result.summary())
