"""Stop signals in every phase: 143, no process left, the outputs up to then at home."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.functional.node import RANK, Ended, Node, alive, eventually, pids


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path)
    (node.home / "out").mkdir()
    (node.home / "out" / "earlier").write_text("of an earlier start")
    return node


def stopped_well(node: Node, ended: Ended, code: int = 143) -> None:
    """What holds after every stop."""
    assert ended.code == code, ended.output
    assert (node.obs / "bucket" / "out" / "earlier").read_text() == "of an earlier start"
    assert "Traceback" not in ended.output
    left = [
        pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if str(node.root) in _line(pid)
    ]
    assert left == []


def _line(pid: int) -> str:
    """The command line and the environment of a process that lives."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return ""
    return text.decode(errors="replace") if alive(pid) and pid != os.getpid() else ""


def outputs(node: Node) -> list[str]:
    return node.mapping({}, {"out": "obs://bucket/out/"})


def test_while_a_shell_file_is_sourced(node: Node) -> None:
    script = node.root / "set_env.sh"
    script.write_text(f"touch {node.root}/sourcing; sleep 600\n")
    running = node.start(*outputs(node), "--source", str(script), RANK)
    eventually((node.root / "sourcing").exists, "the script runs")
    running.signal()
    stopped_well(node, running.end())


def test_while_waiting_for_the_rank_table(node: Node) -> None:
    running = node.start(*outputs(node), RANK)
    eventually(lambda: node.in_phase("rank table"), "the wait")
    running.signal()
    stopped_well(node, running.end())


def test_while_inputs_arrive(node: Node) -> None:
    (node.obs / "bucket").mkdir()
    os.mkfifo(node.root / "never")  # a listing reads it, and blocks like a server that has gone silent
    (node.obs / "bucket" / "data").symlink_to(node.root / "never")
    options = node.mapping({"data": "obs://bucket/data"}, {"out": "obs://bucket/out/"})
    running = node.start(*options, RANK)
    eventually(lambda: node.in_phase("inputs"), "the download")
    running.signal()
    stopped_well(node, running.end())


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_while_the_training_runs(node: Node, signum: int) -> None:
    node.complete_table()
    running = node.start(*outputs(node), RANK, "write:out/RANK:x", f"ready:{node.root}/pid", "sleep")
    ranks = pids(node.root, "pid.*", 2)
    running.signal(signum)
    stopped_well(node, running.end(), 128 + signum)
    assert (node.obs / "bucket" / "out" / "1").exists()
    assert not any(alive(pid) for pid in ranks)


def test_a_second_signal_cuts_the_grace_short(node: Node) -> None:
    node.complete_table()
    running = node.start(
        *outputs(node), "--stop-timeout", "600", RANK, "deaf", f"ready:{node.root}/pid", "sleep"
    )
    pids(node.root, "pid.*", 2)
    running.signal()
    eventually(lambda: any(event["kind"] == "stop" for event in node.events()), "the stop")
    running.signal()
    stopped_well(node, running.end())


def test_while_outputs_go_home(node: Node) -> None:
    node.complete_table()
    os.mkfifo(node.root / "slow")
    (node.home / "out" / "slow").symlink_to(node.root / "slow")
    big = node.home / "out" / "zz-big"
    with big.open("wb") as file:
        file.truncate(3 << 30)
    running = node.start(*outputs(node), RANK)
    eventually(lambda: node.in_phase("outputs"), "the upload")
    running.signal()
    running.signal()
    ended = running.end()
    assert ended.code == 143


def test_ma_boot_is_stopped_before_it_can_say_a_word(node: Node) -> None:
    node.complete_table()
    running = node.start(*outputs(node), RANK, "sleep")
    eventually(lambda: Path(f"/proc/{running.process.pid}/cmdline").read_bytes(), "exec")
    running.signal(signal.SIGTERM)
    assert running.end().code in (
        143,
        -signal.SIGTERM,
    )  # before the handlers stand, the kernel's way is the same
