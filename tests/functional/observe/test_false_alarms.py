"""What is no hang, though nothing is printed and the rank's own process sleeps."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.functional.boot.stand_ins import stand_in
from tests.functional.node import PROGRAMS, Node, eventually
from tests.unit.observe.card_outputs import NPU_910B

BUSY = """
import time
end = time.monotonic() + {}
while time.monotonic() < end:  # a sixth of a core
    part = time.thread_time() + 0.02
    while time.thread_time() < part: pass
    time.sleep(0.1)
"""
RANKS = f"""
import os, subprocess, sys, time
busy = lambda seconds: [sys.executable, "-c", {BUSY!r}.format(seconds)]
rank = os.environ["RANK_ID"]
if rank == "0":  # a data loader in a session of its own
    subprocess.Popen(busy(100), start_new_session=True).wait()
while rank == "1":  # many short children, each reaped at once
    subprocess.run(busy(0.2)), time.sleep(0.2)
if rank == "2":  # an orphan, which ma_boot adopts
    subprocess.run([sys.executable, "-c", "import subprocess, sys; subprocess.Popen(sys.argv[1:])", *busy(100)])
time.sleep(100)
"""


def hung(node: Node) -> list[str]:
    return [label for event in node.events() if event["kind"] == "hang" for label in event["labels"]]


def samples(node: Node) -> int:
    return sum(event["kind"] == "metrics" for event in node.events())


def test_work_of_children_is_life_and_only_the_hanging_rank_is_named(tmp_path: Path) -> None:
    node = Node(tmp_path, devices=4)
    node.complete_table()
    script = tmp_path / "ranks.py"
    script.write_text(RANKS)
    booting = node.start("--hang-timeout", "3", "--metrics", "1", str(script))
    eventually(lambda: hung(node), "a hang")
    booting.until("rank 3: no output and no CPU time for 3 s")
    before = samples(node)
    eventually(lambda: samples(node) >= before + 4, "more than another timeout")
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
    calls = tmp_path / "tools" / "npu-smi.asked"
    before = len(calls.read_text())
    eventually(lambda: len(calls.read_text()) >= before + 12 * len("info\n"), "more than another timeout")
    assert hung(with_cards) == ["rank 1"]
    (tmp_path / "tools" / "npu-smi.txt").write_text(NPU_910B.replace(" 97 ", " 0  "))
    booting.until("rank 0: no output and no CPU time for 2 s")
    booting.signal()
    assert booting.end().code == 143


def test_a_tool_that_hangs_hides_no_hang(with_cards: Node, tmp_path: Path) -> None:
    (tmp_path / "tools" / "npu-smi").write_text("#!/bin/sh\nexec sleep 100\n")
    booting = with_cards.start("--hang-timeout", "2", "--", "sleep", "100")
    booting.until("rank 0, rank 1: no output and no CPU time for 2 s")
    booting.signal()
    assert booting.end().code == 143


WAYS = ("session", "daemon", "reaped", "forgotten", "card", "polls", "checkpoint", "loader", "prints")
TIMEOUT = 4  # seconds
TIMEOUTS = 3  # that each rank is healthy for, in the seeded jobs
SEEDS = 24
NPU_SMI = """#!/bin/bash
card() {
  echo "| $1     910B3 | OK            | 93.6  40  0 / 0             |"
  echo "| 0            | 0000:0$1:00.0 | $2    0 / 0   3161 / 65536  |"
}
"""


def flickering(tools: Path, ways: list[str], chance: random.Random) -> None:
    """A stand-in of npu-smi: the cards of ranks that wait for them compute at some looks, at others they do not."""
    tools.mkdir()
    shares = [f"{chance.randint(15, 60)}" if way == "card" else "0" for way in ways]
    lines = [f"card {card} $((RANDOM % 100 < {share} ? 97 : 0))" for card, share in enumerate(shares)]
    (tools / "npu-smi").write_text(NPU_SMI + "\n".join(lines) + "\n")
    (tools / "npu-smi").chmod(0o755)


def alarms(seed: int, place: Path, ways: list[str], timeouts: int = TIMEOUTS) -> list[str]:
    """The ways of the healthy ranks that were taken for hanging; another rank hangs."""
    chance = random.Random(seed)
    ways = [*ways, "hangs"]
    chance.shuffle(ways)
    node = Node(place, devices=len(ways))
    node.complete_table()
    flickering(place / "tools", ways, chance)
    node.variables["PATH"] = f"{place / 'tools'}:{node.environ()['PATH']}"
    program = [str(PROGRAMS / "healthy.py"), str(TIMEOUT), ",".join(ways), str(seed)]
    booting = node.start("--hang-timeout", str(TIMEOUT), "--metrics", "1", *program)
    # The other ranks are looked at before one is named, which takes long on a busy machine.
    eventually(lambda: samples(node) >= TIMEOUT * (timeouts + 1) and hung(node), "all timeouts")
    booting.signal()
    ended = booting.end()
    assert ended.code == 143, ended.output
    named = [ways[int(label.partition(" ")[2])] for label in hung(node)]
    assert "hangs" in named, "this one does"
    return [way for way in named if way != "hangs"]


def rate(seeds: range, place: Path) -> Counter[str]:
    """The healthy ranks that were named, by their way, and a table of it."""
    watched: Counter[str] = Counter()
    named: Counter[str] = Counter()
    for seed in seeds:
        ways = random.Random(seed).sample(WAYS, 7)
        watched.update(ways)
        named.update(alarms(seed, place / str(seed), ways))
    for way in WAYS:
        print(f"{way:<12}{watched[way]:4} ranks, {TIMEOUTS * watched[way]:4} timeouts: {named[way]} named")
    count = sum(watched.values())
    print(f"{'all':<12}{count:4} ranks, {TIMEOUTS * count:4} timeouts: {sum(named.values())} named")
    return named


def test_no_healthy_rank_of_any_way_is_named(tmp_path: Path) -> None:
    """Each way once, for two timeouts; `make test-hangs` has jobs of many seeds."""
    assert alarms(0, tmp_path, list(WAYS), timeouts=2) == []


@pytest.mark.hangs
@pytest.mark.timeout(1800)
def test_no_healthy_rank_of_24_seeded_jobs_is_named(tmp_path: Path) -> None:
    assert rate(range(SEEDS), tmp_path) == {}
