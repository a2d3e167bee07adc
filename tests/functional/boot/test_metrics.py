"""Metrics of a job, from the boot command to its events."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

from tests.functional.node import Node

STEPS = """
import os, sys, time
rank, go_on = os.environ["RANK_ID"], sys.argv[1]
held = bytearray(64 << 20)
step = 0
while not os.path.exists(go_on):
    step += 1
    end = time.monotonic() + (0.3 if rank == "2" else 0.1)
    while time.monotonic() < end and rank == "1":
        pass
    time.sleep(max(0.0, end - time.monotonic()))
    print(f"epoch: 1 step: {step}, loss is {10 / step}", flush=True)
print(f"epoch: 1 step: {step + 1}, loss is 0.125", flush=True)
"""


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path, devices=4)
    node.complete_table()
    return node


def metrics(node: Node) -> List[Dict[str, Any]]:
    return [event for event in node.events() if event["kind"] == "metrics"]


def test_what_ranks_use_and_print_is_in_the_events(node: Node, tmp_path: Path) -> None:
    script, go_on = tmp_path / "steps.py", tmp_path / "go-on"
    script.write_text(STEPS)
    booting = node.start("--metrics", "1", "--python", sys.executable, str(script), str(go_on))
    booting.until("rank 2 is slower than the others: ")
    go_on.touch()
    ended = booting.end()
    assert ended.code == 0, ended.output
    whole = [event for event in metrics(node) if "rss" in event["ranks"]]
    assert len(whole) >= 3
    for event in whole:
        ranks = event["ranks"]
        assert ranks["rank"] == [0, 1, 2, 3]
        assert all(size >= 64 for size in ranks["rss"] if size is not None)
        assert event["host"]["memory"][0] <= event["host"]["memory"][1]
        assert str(node.home) in event["host"]["disks"]
    busy = [sum(event["ranks"]["cpu"][rank] or 0 for event in whole[1:]) for rank in range(4)]
    assert busy[1] > 3 * max(busy[0], busy[2], busy[3]), "only rank 1 computes"
    times = whole[2]["ranks"]["step_time"]
    assert times[2] > 2 * times[0]
    slow = [event for event in node.events() if event["kind"] == "slow rank"]
    assert [event["rank"] for event in slow] == [2]
    assert metrics(node)[-1]["ranks"]["loss"] == [0.125] * 4, "the last lines count"


def test_off_is_off_and_a_short_job_has_none(node: Node, tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    go_on.touch()
    script = tmp_path / "steps.py"
    script.write_text(STEPS)
    for options in (["--metrics", "off"], []):
        assert node.boot(*options, "--python", sys.executable, str(script), str(go_on)).code == 0
    assert metrics(node) == []


def test_own_metrics_have_their_own_names(node: Node, tmp_path: Path) -> None:
    own = ["--metrics", "1", "--metric", "lr=rate: ([0-9.e-]+)", "--metric", "loss=total=([0-9.]+)"]
    program = "echo epoch: 1 step: 3, loss is 9; echo rate: 1e-4; echo total=2.5; sleep 1.5"
    assert node.boot(*own, "--", "bash", "-c", program).code == 0
    ranks = metrics(node)[0]["ranks"]
    assert (ranks["step"], ranks["loss"], ranks["values"]) == ([3] * 4, [2.5] * 4, {"lr": [1e-4] * 4})


def test_the_variable_has_a_pattern_in_each_line(node: Node) -> None:
    node.variables.update(MABOOT_METRICS="1", MABOOT_METRIC="lr=rate: ([0-9.e-]+)\nloss=total: ([0-9.]+)")
    assert node.boot("--", "bash", "-c", "echo rate: 1e-4; echo total: 2.5; sleep 1.5").code == 0
    ranks = metrics(node)[0]["ranks"]
    assert (ranks["loss"], ranks["values"]) == ([2.5] * 4, {"lr": [1e-4] * 4})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--metric", "loss=(a+)+b"], "repeats a group, which can take forever"),
        (["--metric", "loss"], "expected NAME=REGEX"),
        (["--metrics", "never"], "found 'never', expected 1 to 3600 seconds, or off"),
        (["--metrics", "0.1"], "found '0.1', expected 1 to 3600 seconds, or off"),
    ],
)
def test_what_is_wrong_is_said_before_the_job(node: Node, options: List[str], said: str) -> None:
    ended = node.boot(*options, "true")
    assert ended.code == 64
    assert said in ended.output
