"""A code that stands only in CANN's log of a failed rank: in the last line, the hints and the rules of restarts."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from tests.functional.node import Node, events_in
from tests.functional.rehearsal.jobs import rehearse

# As CANN writes it beside an exception that has no code; `{}` is the message.
WRITE = """
import os, sys
def plog(message, pid=os.getpid(), place=os.environ.get("ASCEND_PROCESS_LOG_PATH") or "~/ascend/log"):
    place = os.path.join(os.path.expanduser(place), "debug", "plog")
    os.makedirs(place, exist_ok=True)
    file = os.path.join(place, f"plog-{pid}_20260102030405678.log")
    with open(file, "a") as log:
        log.write(f"[INFO] HCCL({pid},python):2026-01-02-03:04:05.678.901 [a.cc:1] [7]EI0001 is not set\\n")
        log.write(f"[ERROR] HCCL({pid},python):2026-01-02-03:04:05.678.902 [b.cc:2] [7][Init]{message}\\n")
    return file
"""
FAIL = "raise RuntimeError('Initialize: NPU error')\n"
WORDS = "RuntimeError: Initialize: NPU error"


def script(node: Node, *lines: str) -> str:
    file = node.home / "train.py"
    file.write_text(WRITE + "\n".join(lines))
    return str(file)


def last_line(output: str) -> str:
    return [line for line in output.splitlines() if line.startswith("[ma_boot]")][-1]


def test_code_of_the_plog_is_in_the_last_line_and_the_failure_file(node: Node) -> None:
    train = script(node, "plog('port 16666 is in use (EJ0003)')", FAIL)
    ended = node.boot("python", train)
    assert f": {WORDS}; in CANN's log: port 16666 is in use (EJ0003), at " in last_line(ended.output), (
        ended.output
    )
    assert ". What to do: " in last_line(ended.output)
    failure = json.loads(node.logs()["modelarts-job-test-node-0-failure.json"])
    assert [line.endswith("[Init]port 16666 is in use (EJ0003)") for line in failure["plog"]] == [True]
    assert "EJ0003" in failure["advice"][0]


def test_plogs_of_a_script_and_of_its_rank_are_read(node: Node) -> None:
    train = script(node, "plog('port 16666 is in use (EJ0003)')", FAIL)
    ended = node.boot("--per-node", "bash", "-c", f"{sys.executable} {train}")
    assert "; in CANN's log: port 16666 is in use (EJ0003), at " in last_line(ended.output), ended.output


@pytest.mark.parametrize("code", ["EI0014", "EJ0001"])
def test_restart_follows_the_code_of_the_plog(node: Node, code: str) -> None:
    node.variables["MABOOT_START_SECONDS"] = "0"
    train = script(node, f"plog('failed ({code})')", FAIL)
    node.boot("--max-restarts", "1", "--devices", "1", "--rendezvous", "none", "python", train)
    verdicts = [event for event in events_in(node.log_dir / "modelarts-job-test-node-0-events.jsonl")
                if event["kind"] == "verdict"]  # fmt: skip
    assert (verdicts[0]["rule"], verdicts[0]["again"]) == {
        "EI0014": ("configuration", False),
        "EJ0001": ("transient", True),
    }[code]


def test_plogs_of_others_and_of_earlier_attempts_do_not_count(node: Node) -> None:
    shared = node.home / "shared"
    node.variables["ASCEND_PROCESS_LOG_PATH"] = str(shared)
    train = script(
        node,
        "plog('of another process (EJ0003)', pid=os.getppid())",
        "old = plog('of an earlier attempt (EJ0003)')",
        "os.utime(old, (1000, 1000))",
        FAIL,
    )
    ended = node.boot("python", train)
    assert "EJ0003" not in ended.output


def test_hostile_plogs_delay_the_end_by_no_more_than_two_seconds(node: Node) -> None:
    train = script(
        node,
        "file = plog('port 16666 is in use (EJ0003)')",
        "place = os.path.dirname(file)",
        "os.mkfifo(os.path.join(place, f'plog-{os.getpid()}_2.log'))",
        "os.symlink('/dev/zero', os.path.join(place, f'plog-{os.getpid()}_3.log'))",
        "open(os.path.join(place, f'plog-{os.getpid()}_4.log'), 'wb').truncate(1 << 40)",
        "open(os.path.join(place, f'plog-{os.getpid()}_5.log'), 'wb').write(os.urandom(1 << 20))",
        FAIL,
    )
    began = time.monotonic()
    ended = node.boot("--devices", "1", "python", train)
    assert time.monotonic() - began < 20
    assert f"{WORDS}, at " in last_line(ended.output), ended.output
    assert ended.code == 1


def test_all_nodes_name_the_code_of_the_plog(tmp_path: Path) -> None:
    """Nodes that fail at once judge by the first reports: these have the code already."""
    (tmp_path / "train.py").write_text(f"{WRITE}plog('no answer of a rank (EI0006)')\n{FAIL}")
    ended = rehearse(tmp_path, "--nodes", "2", "--devices-per-node", "2", "train.py")
    named = [line for line in ended.output.splitlines() if "the job's cause: node " in line]
    assert named
    assert all(f"{WORDS}; in CANN's log: no answer of a rank (EI0006), at " in line for line in named), named


def test_job_without_a_failure_reads_no_plog(node: Node) -> None:
    train = script(node, "plog('port 16666 is in use (EJ0003)')")
    ended = node.boot("python", train)
    assert ended.code == 0
    assert "EJ0003" not in ended.output
    assert Path(train).exists()
