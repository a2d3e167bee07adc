"""Errors in best-effort parts never change the end of a job: channel, report, page, work after the ranks."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.functional.node import RANK, Booting, Ended, Node

# Runs ma_boot with one function that raises an unexpected exception.
BROKEN = """
import sys
from importlib import import_module
module, *names = sys.argv.pop(1).split(":")
def broken(*arguments, **more):
    raise ZeroDivisionError("planted")
place = import_module(module)
for name in names[:-1]:
    place = getattr(place, name)
setattr(place, names[-1], broken)
from ma_boot.__main__ import run
run()
"""


def booted(node: Node, broken: str, code: int) -> Ended:
    """Boots node 0 of a job whose node 1 is missing, with one function `broken`; its output is uploaded."""
    node.variables.update(
        MA_NUM_HOSTS="2", VC_TASK_INDEX="0", VC_WORKER_HOSTS="127.77.1.1,127.77.1.2", RANK_TABLE_FILE="",
        MABOOT_JOB_TOKEN="9f1c0a2e55d04c7fa3c1",
    )  # fmt: skip
    (node.home / "out").mkdir()
    options = [*node.mapping({}, {"out": "obs://bucket/out/"}), "--rendezvous", "none"]
    process = subprocess.Popen(
        [sys.executable, "-c", BROKEN, broken, *options, RANK, "write:out/file:x", f"exit:{code}:-"],
        cwd=node.home, env=node.environ(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return Booting(node, process).end()


@pytest.mark.parametrize("code", [0, 5])
@pytest.mark.parametrize(
    "broken",
    [
        "ma_boot.node.peers.failure_message:failures_body",
        "ma_boot.node.peers.failure_message:read_failures",
        "ma_boot.node.observe.channel.channel:NodeChannel:send",
        "ma_boot.node.observe.channel.channel:NodeChannel:poll",
        "ma_boot.node.observe.channel.channel:NodeChannel:meet",
        "ma_boot.node.observe.channel.channel:NodeChannel:flush",
        "ma_boot.node.observe.channel.channel:NodeChannel:close",
        "ma_boot.node.observe.channel.channel:open_listener",
        "ma_boot.node.boot.boot:stop_setup",
        "ma_boot.node.boot.boot:form_channels",
        "ma_boot.node.boot.boot:empty_outputs",
        "ma_boot.node.boot.boot:call_post_stop",
        "ma_boot.node.boot.run_phase:_advice_on_files",
        "ma_boot.cli.execute:end_event",
        "ma_boot.cli.execute:write_failure",
        "ma_boot.cli.execute:report_lines",
        "ma_boot.report.journal:Journal:close",
    ],
)
def test_error_in_a_best_effort_part_does_not_change_the_end_of_the_job(
    node: Node, broken: str, code: int
) -> None:
    ended = booted(node, broken, code)
    assert ended.code == code, ended.output
    assert "Traceback" not in ended.output
    assert f"exit code {code}" in ended.output.splitlines()[-1] or "Journal" in broken, ended.output
    assert (node.obs / "bucket" / "out" / "file").exists()
    assert ended.output.count("ZeroDivisionError: planted") <= 2, ended.output


def test_failed_channel_is_reported_once_and_the_job_continues(node: Node) -> None:
    ended = booted(node, "ma_boot.node.observe.channel.channel:NodeChannel:poll", 0)
    assert ended.output.count("this node continues without its peers: ZeroDivisionError: planted") == 1
    events = [json.loads(line)["kind"] for line in (node.log_dir / _events(node)).read_text().splitlines()]
    assert events[-1] == "end"


def _events(node: Node) -> str:
    (file,) = node.log_dir.glob("*-events.jsonl")
    return file.name
