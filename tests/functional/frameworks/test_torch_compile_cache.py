"""Real torch.compile: a second start compiles nothing, and computes the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.functional.frameworks.torch_jobs import rehearse

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]

COMPILED = """
import json, time, torch
from torch._dynamo.utils import counters
torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.compile(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)))
began = time.monotonic()
loss = net(torch.randn(4, 8)).square().mean()
loss.backward()
seconds = time.monotonic() - began
print("compiled", json.dumps({"seconds": seconds, "loss": loss.item(), **counters["inductor"]}), flush=True)
"""


def compiled(directory: Path) -> tuple[dict[str, Any], tuple[int, int]]:
    """Rehearses a job in a container of its own; returns what the rank printed, and files found and compiled."""
    options = (
        "--nodes",
        "1",
        "--devices-per-node",
        "1",
        "--obs-root",
        "obs",
        "--path-mapping",
        "mapping.yaml",
    )
    ended = rehearse(directory, *options, "code/train.py")
    assert ended.code == 0, ended.output
    found = re.search(
        r"compile cache: (\d+) files from the cache, (\d+) compiled in this start", ended.output
    )
    line = re.search(r"compiled (\{.*\})", ended.output)
    assert found, ended.output
    assert line, ended.output
    return json.loads(line[1]), (int(found[1]), int(found[2]))


def test_torch_compile_takes_its_kernels_from_the_cache(tmp_path: Path) -> None:
    (tmp_path / "obs" / "bucket").mkdir(parents=True)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(COMPILED)
    (tmp_path / "mapping.yaml").write_text("cache:\n  cc: obs://bucket/caches/\n")
    cold, files_cold = compiled(tmp_path)
    warm, files_warm = compiled(tmp_path)
    assert cold["fxgraph_cache_miss"] == warm["fxgraph_cache_hit"] == 2
    assert "fxgraph_cache_miss" not in warm
    assert warm["loss"] == cold["loss"]
    assert warm["seconds"] < cold["seconds"] / 2
    assert files_cold[0] == files_warm[1] == 0
    assert files_warm[0] == files_cold[1] > 5
