"""Real PyTorch and MindSpore jobs that fail in the same way: the platform's third start ends at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.functional.frameworks.pythons import WITH_MINDSPORE, WITH_TORCH

TORCH = """
import os, torch, torch.distributed as dist
from ma_boot.training import checkpoint
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
for step in range(int(os.environ.get("MABOOT_RESTORED_STEP") or 0) + 1, 30):
    target = torch.tensor([1 if step == 13 else 0])
    loss = torch.nn.functional.cross_entropy(model(torch.ones(1, 4)), target)
    print(f"step: {step} loss: {loss.item():.4f}", flush=True)
    if step % 5 == 0:
        if dist.get_rank() == 0:
            os.makedirs("out", exist_ok=True)
            torch.save(model.state_dict(), f"out/step-{step}.pt")
        checkpoint(step)
"""
MINDSPORE = """
import numpy as np, mindspore as ms
from mindspore import Tensor, nn, ops
ms.set_device("CPU")
net, x = nn.Dense(4, 1), Tensor(np.ones((2, 4), np.float32))
for step in range(1, 4):
    print(f"epoch: 1 step: {step}, loss is {float(net(x).sum()):.4f}", flush=True)
print(ops.MatMul()(x, Tensor(np.ones((3, 3), np.float32))).asnumpy())
"""
OUTPUT = {
    "obs": "obs://bucket/ckpt",
    "checkpoint": "step-{step}.pt",
    "restore": "latest",
    "interval": 1,
    "savers": "first",
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("training", "python", "options", "words"),
    [
        pytest.param(TORCH, WITH_TORCH, ["--devices-per-node", "2", "--rendezvous", "torch"],
                     "no newer checkpoint since step 10", marks=pytest.mark.torch),
        pytest.param(MINDSPORE, WITH_MINDSPORE, ["--devices-per-node", "1"],
                     "no complete checkpoint", marks=pytest.mark.mindspore),
    ],
)  # fmt: skip
def test_deterministic_failure_has_two_real_starts(
    tmp_path: Path, training: str, python: Path, options: list[str], words: str
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "obs" / "bucket").mkdir(parents=True)
    (tmp_path / "project" / "train.py").write_text(training)
    (tmp_path / "mapping.py").write_text(f"PATH_MAPPING_CONFIG = { ({'output': {'out': OUTPUT}})!r}\n")
    argv = [sys.executable, "-m", "ma_boot", "--local", "--nodes", "1", *options, "--python", str(python)]
    argv += ["--path-mapping", "mapping.py", "--obs-root", "obs", "--fault", "rescheduled times=3"]
    environ = {**os.environ, "MABOOT_RANK_TABLE_DELAY": "0.2"}
    ended = subprocess.run(
        [*argv, "project/train.py"], cwd=tmp_path, env=environ, capture_output=True, text=True
    )
    assert ended.returncode == 1, ended.stdout
    last = ended.stdout.splitlines()[-1]
    assert "started 2 times before with the same failure (" in last
    assert words in last
    files = [file for file in (tmp_path / "obs").rglob("*.json") if "ledger" in file.parts]
    outcomes = sorted(file.stem for file in files)
    assert outcomes == ["00000-begun"] * 2 + ["00000-refused"] * 2 + ["00001-failed"] * 2
    failed = [json.loads(file.read_text()) for file in files if file.stem.endswith("failed")]
    assert {entry["kind"] for entry in failed} == {"deterministic"}
