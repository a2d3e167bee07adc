"""A node that trains, with its checkpoints in an embedded OBS."""

from __future__ import annotations

import sys

from path_mapping.stores.open_store import open_store
from tests.conftest import CREDENTIALS
from tests.functional.checkpoints.output import manifests
from tests.functional.node import Node
from tests.obs import MemoryObs

TRAINING = """
import os, sys, time
from pathlib import Path
out, last, rank = Path(sys.argv[1]), int(sys.argv[2]), os.environ["RANK_ID"]
begin = int(os.environ.get("MABOOT_RESTORED_STEP", 0))
steps = sorted(int(path.name[5:]) for path in out.glob("iter_*"))
print(f"rank {rank} resumes from {begin} of {os.environ.get('MABOOT_RESTORED_FROM')}, found {steps}", flush=True)
for step in range(begin + 10, last + 1, 10):
    (out / f"iter_{step}").mkdir(parents=True, exist_ok=True)
    (out / f"iter_{step}" / f"rank_{rank}.bin").write_bytes(f"{step} of {rank};".encode() * 10_000)
    while (out / "pause").exists() or not (out / f"go_{step}").exists():
        time.sleep(0.02)
"""


class Job:
    """A node whose checkpoints go to an embedded OBS."""

    def __init__(self, node: Node, obs: MemoryObs, **options: object) -> None:
        self.node, self.obs = node, obs
        self.out = node.home / "ckpt"
        self.out.mkdir()
        self.store = open_store({"OBS_ENDPOINT": obs.url, **CREDENTIALS}, None)
        node.variables.update({"OBS_ENDPOINT": obs.url, **CREDENTIALS})
        (node.home / "train.py").write_text(TRAINING)
        route = {"obs": "obs://bucket/ckpt", "checkpoint": "iter_{step}/rank_{rank}.bin", **options}
        mapping = {"output": {str(self.out): {"restore": "latest", "interval": 1, **route}}}
        (node.root / "mapping.py").write_text(f"PATH_MAPPING_CONFIG = {mapping!r}\n")

    def arguments(self, last: int) -> list[str]:
        mapping = ["--path-mapping", str(self.node.root / "mapping.py"), "--python", sys.executable]
        return [*mapping, "train.py", str(self.out), str(last)]

    def go(self, *steps: int) -> None:
        for step in steps:
            (self.out / f"go_{step}").touch()

    def published(self) -> int:
        return len(manifests(self.store))
