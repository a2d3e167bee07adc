"""Metrics of ranks that a command has started: their processes, and steps in their files."""

from __future__ import annotations

import time
from pathlib import Path

from ma_boot.node.scripts.rank_output import TAIL_BYTES, RankOutput, read_tail
from tests.functional.node import Node, eventually

SCRIPT = """#!/bin/bash
for i in 0 1; do
    RANK_ID=$i DEVICE_ID=$i python3 rank.py > "train$i.log" 2>&1 &
done
wait
"""
RANK = """
import os, time
for step in range(1, 400):
    print(f"step: {step}, loss: {0.5 + int(os.environ['RANK_ID'])}", flush=True)
    if os.path.exists("end"): break
    time.sleep(0.05)
"""


def test_steps_of_script_ranks_are_read_from_their_files(node: Node) -> None:
    (node.home / "run.sh").write_text(SCRIPT)
    (node.home / "rank.py").write_text(RANK)
    running = node.start("--metrics", "1", "bash", "run.sh")

    def steps() -> list[tuple[int, int]]:
        events = [event["ranks"] for event in node.events() if event["kind"] == "metrics"]
        return [
            (rank, step)
            for ranks in events
            for rank, step in zip(ranks["rank"], ranks.get("step", []))
            if rank is not None and step
        ]

    eventually(lambda: {rank for rank, _ in steps()} == {0, 1}, "steps of both ranks")
    (node.home / "end").touch()
    ended = running.end()
    assert ended.code == 0, ended.output


def test_output_of_a_file_is_read_once_and_bounded(tmp_path: Path) -> None:
    file = tmp_path / "log"
    output = RankOutput(0, 1, str(file))
    assert output.since(0)[:2] == (0, b""), "missing"
    file.write_bytes(b"one\n")
    size, data, at = output.since(0)
    assert (size, data) == (4, b"one\n")
    assert abs(at - time.monotonic()) < 60
    with file.open("ab") as more:
        more.write(b"two\n")
    assert output.since(4)[:2] == (8, b"two\n")
    assert output.since(8)[:2] == (8, b"")
    file.write_bytes(b"x")
    assert output.since(8)[:2] == (8, b""), "shorter than before"
    file.write_bytes(b"y" * (TAIL_BYTES + 10))
    assert output.since(0)[:2] == (TAIL_BYTES + 10, b"y" * TAIL_BYTES)
    assert len(read_tail(str(file))) == TAIL_BYTES
    assert read_tail(str(tmp_path / "missing")) == ""


def test_rank_without_a_file_has_no_output_of_its_own() -> None:
    assert RankOutput(0, 1, None).since(7)[:2] == (7, b"")
