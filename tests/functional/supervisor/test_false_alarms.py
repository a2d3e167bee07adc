"""What is no hang, though nothing is printed and the rank's own process sleeps."""

from __future__ import annotations

from pathlib import Path
from typing import List

import pytest

from tests.functional.boot.test_metrics import stand_in
from tests.functional.node import Node, eventually
from tests.unit.metrics.test_cards import NPU_910B

BUSY = "import time; end = time.monotonic() + {}\nwhile time.monotonic() < end: pass"
RANKS = f"""
import os, subprocess, sys, time
busy = lambda seconds: [sys.executable, "-c", {BUSY!r}.format(seconds)]
rank = os.environ["RANK_ID"]
if rank == "0":  # a data loader in a session of its own
    subprocess.Popen(busy(100), start_new_session=True).wait()
while rank == "1":  # many short children, each reaped at once
    subprocess.run(busy(0.2))
if rank == "2":  # an orphan, which ma_boot adopts
    subprocess.run([sys.executable, "-c", "import subprocess, sys; subprocess.Popen(sys.argv[1:])", *busy(100)])
time.sleep(100)
"""


def hung(node: Node) -> List[str]:
    return [label for event in node.events() if event["kind"] == "hang" for label in event["labels"]]


def test_work_of_children_is_life_and_only_the_hanging_rank_is_named(tmp_path: Path) -> None:
    node = Node(tmp_path, devices=4)
    node.complete_table()
    script = tmp_path / "ranks.py"
    script.write_text(RANKS)
    booting = node.start("--hang-timeout", "4", "--metrics", "1", str(script))
    eventually(lambda: hung(node), "a hang")
    booting.until("rank 3: no output and no CPU time for 4 s")

    def samples() -> int:
        return sum(event["kind"] == "metrics" for event in node.events())

    before = samples()
    eventually(lambda: samples() >= before + 6, "more than another timeout")
    booting.signal()
    booting.end()
    assert hung(node) == ["rank 3"]
    cpu = [event["ranks"]["cpu"] for event in node.events() if event["kind"] == "metrics"]
    for rank in (0, 1, 2):
        assert sum(used[rank] or 0 for used in cpu) > 10 * sum(used[3] or 0 for used in cpu[1:]), rank


@pytest.fixture
def with_cards(tmp_path: Path) -> Node:
    """Two ranks, whose cards a stand-in of npu-smi tells of: the first one computes."""
    node = Node(tmp_path)
    node.complete_table()
    stand_in(tmp_path / "tools", "npu-smi", NPU_910B)
    node.variables["PATH"] = f"{tmp_path / 'tools'}:{node.environ()['PATH']}"
    return node


def test_a_rank_that_waits_for_its_card_is_no_hang(with_cards: Node, tmp_path: Path) -> None:
    booting = with_cards.start("--hang-timeout", "2", "--hang-action", "report", "--", "sleep", "100")
    booting.until("rank 1: no output and no CPU time for 2 s")
    asked = tmp_path / "tools" / "npu-smi.asked"
    before = len(asked.read_text())
    eventually(lambda: len(asked.read_text()) >= before + 12 * len("info\n"), "more than another timeout")
    assert hung(with_cards) == ["rank 1"]
    (tmp_path / "tools" / "npu-smi.txt").write_text(NPU_910B.replace(" 97 ", " 0  "))
    booting.until("rank 0: no output and no CPU time for 2 s")
    booting.signal()
    assert booting.end().code == 143


def test_no_card_is_looked_at_while_all_ranks_work(with_cards: Node, tmp_path: Path) -> None:
    program = "for ((i = 0; i < 30; i++)); do echo; sleep 0.1; done"
    assert with_cards.boot("--hang-timeout", "2", "--metrics", "off", "--", "bash", "-c", program).code == 0
    assert not (tmp_path / "tools" / "npu-smi.asked").exists()


def test_a_tool_that_hangs_hides_no_hang(with_cards: Node, tmp_path: Path) -> None:
    (tmp_path / "tools" / "npu-smi").write_text("#!/bin/sh\nexec sleep 100\n")
    booting = with_cards.start("--hang-timeout", "2", "--", "sleep", "100")
    booting.until("rank 0, rank 1: no output and no CPU time for 2 s")
    booting.signal()
    assert booting.end().code == 143
