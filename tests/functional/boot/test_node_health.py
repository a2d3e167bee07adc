"""A node between two attempts, with a stand-in for npu-smi."""

from __future__ import annotations

from pathlib import Path

import pytest

from ma_boot.node.boot.node_health import broken_cards
from ma_boot.node.observe.metrics.card_tables import parse_npu_state
from tests.functional.boot.stand_ins import stand_in
from tests.functional.node import Node
from tests.unit.observe.card_outputs import NPU_310, NPU_910B

HEALTHY = NPU_910B.replace("Alarm", "OK   ")
USED = "| 4       0                 | 99910         | python                   | 27977                   |"
FREE = HEALTHY.replace(USED, "| No running processes found in NPU 4 |")
FAILS = "import os, sys, time; time.sleep(0.2); sys.exit(0 if os.environ['MABOOT_ATTEMPT'] == '2' else 7)"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path)
    node.variables.update(PATH=f"{tmp_path / 'tools'}:{node.environ()['PATH']}", MABOOT_START_SECONDS="0")
    node.complete_table()
    return node


@pytest.mark.parametrize(
    ("table", "cards", "problems"),
    [
        (HEALTHY, 2, []),
        (NPU_910B, 2, ["NPU 5 is Alarm (npu-smi)"]),
        (HEALTHY, 3, ["npu-smi shows 2 of 3 NPUs"]),
        ("dcmi module initialize failed", 2, []),
    ],
)
def test_problems_of_devices_are_those_that_the_tool_shows(
    table: str, cards: int, problems: list[str]
) -> None:
    assert [*broken_cards(parse_npu_state(table), cards)] == problems


@pytest.mark.parametrize(("table", "count"), [(HEALTHY, 1), (FREE, 0), (NPU_310, None)])
def test_the_processes_of_the_cards_are_counted(table: str, count: int | None) -> None:
    assert parse_npu_state(table).processes == count


def test_broken_device_ends_the_job_at_once(node: Node, tmp_path: Path) -> None:
    stand_in(tmp_path / "tools", "npu-smi", NPU_910B)
    ended = node.boot("--max-restarts", "3", "python", "-c", FAILS)
    assert ended.code == 7
    assert "no restart: hardware: needs new pods (node 0: NPU 5 is Alarm (npu-smi))" in ended.output


def test_next_attempt_waits_until_no_process_uses_a_device(node: Node, tmp_path: Path) -> None:
    """npu-smi is called once for the health, then until no process is left: with the third answer."""
    tools = tmp_path / "tools"
    stand_in(tools, "npu-smi", HEALTHY)
    (tools / "free.txt").write_text(FREE)
    (tools / "npu-smi").write_text(
        f'#!/bin/sh\necho "$@" >>"$0.asked"\ntest "$(wc -l <"$0.asked")" -lt 3 || exec cat {tools}/free.txt\n'
        f"exec cat {tools}/npu-smi.txt\n"
    )
    ended = node.boot("--max-restarts", "1", "--metrics", "0", "python", "-c", FAILS)
    assert ended.code == 0, ended.output
    assert (tools / "npu-smi.asked").read_text() == "info\n" * 3


def test_the_next_attempt_reads_the_rank_table_again(node: Node) -> None:
    """The platform has written another address during the attempt."""
    code = (
        f"import os, sys, time; table = {str(node.table)!r}; text = open(table).read()\n"
        "print(open(os.environ['RANK_TABLE_FILE']).read())\n"
        "if os.environ['MABOOT_ATTEMPT'] == '2': sys.exit(0)\n"
        "if os.environ['RANK_ID'] == '1': time.sleep(60)\n"
        "open(table, 'w').write(text.replace('192.2.', '192.9.'))\n"
        "sys.exit(7)"
    )
    ended = node.boot("--max-restarts", "1", "python", "-c", code)
    assert ended.code == 0, ended.output
    assert "192.9.0.1" in ended.output
