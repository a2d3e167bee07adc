"""Commands that end with 0 although a process of the training failed: each place of the report says so."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.functional.node import Node, events_in
from tests.functional.rehearsal.jobs import rehearse

TRAINING = "def train():\n    raise ValueError('loss is nan')\n\n\ntrain()\n"
LAUNCHER = "import os, sys\nos.system(sys.executable + ' bad.py')\nprint('done')\n"
FAILURE = "a process of the training failed: ValueError: loss is nan, at home/bad.py:2"
REMEDY = 'The command hides its exit code: use "set -o pipefail", or check the return code.'
COMMANDS = {
    "os.system": ("python", "boot.py"),
    "a pipe": ("bash", "-c", "python3 bad.py 2>&1 | tee log"),
    "a later command": ("bash", "-c", "python3 bad.py; echo done"),
}


@pytest.fixture
def trained(node: Node) -> Node:
    """A node with a training that fails, and a program that starts it without a look at its code."""
    (node.home / "bad.py").write_text(TRAINING)
    (node.home / "boot.py").write_text(LAUNCHER)
    return node


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_hidden_failure_is_in_each_place_of_the_report(trained: Node, command: tuple[str, ...]) -> None:
    ended = trained.boot("--per-node", *command)
    assert ended.code == 0, ended.output
    assert ended.output.splitlines()[-1] == f"[ma_boot] exit code 0, but {FAILURE}. {REMEDY}"
    assert re.search(r"\[ma_boot\] in doubt: command, host \S+, pid \d+; its log: \S+\.txt\n", ended.output)
    failure = json.loads(trained.logs()["modelarts-job-test-node-0-failure.json"])
    assert (failure["exit_code"], failure["summary"]) == (0, f"{FAILURE}. {REMEDY}")
    (end,) = (event for event in trained.events() if event["kind"] == "end")
    assert (end["exit_code"], end["by"]) == (0, None)
    assert {**end["doubt"], "log_file": ""} == {
        "label": "command",
        "rank": None,
        "words": "ValueError: loss is nan",
        "place": "home/bad.py:2",
        "log_file": "",
    }
    page = trained.logs()["modelarts-job-test-node-0-report.html"].decode()
    assert '<header class="doubtful">' in page
    assert "The job ended with exit code 0, but a process of the training failed on node 0." in page


def test_report_of_the_events_names_the_hidden_failure(trained: Node) -> None:
    trained.boot("--per-node", *COMMANDS["a later command"])
    argv = [sys.executable, "-m", "ma_boot", "report", str(trained.log_dir)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.splitlines()[0] == (
        "The job ended with exit code 0, but a process of the training failed on node 0. "
        f"ValueError: loss is nan, at home/bad.py:2. {REMEDY}"
    )


def test_success_whose_failure_was_survived_is_not_doubted(trained: Node) -> None:
    ended = trained.boot("--per-node", "bash", "-c", "python3 bad.py; echo step 3: loss 0.1; echo done")
    assert ended.output.splitlines()[-1] == "[ma_boot] exit code 0: success"
    assert "modelarts-job-test-node-0-failure.json" not in trained.logs()


@pytest.mark.parametrize("verbose", ["", "1"], ids=["brief", "verbose"])
def test_rehearsal_ends_with_the_hidden_failure(tmp_path: Path, verbose: str) -> None:
    code = tmp_path / "project"
    code.mkdir()
    (code / "bad.py").write_text(TRAINING)
    (code / "run.sh").write_text("if [ $VC_TASK_INDEX = 1 ]; then python3 bad.py; fi\necho done\n")
    words = ("--nodes", "2", "--per-node", "--workdir", "code", "project/run.sh")
    ended = rehearse(tmp_path, *words, more={"MABOOT_VERBOSE": verbose})
    assert ended.code == 0, ended.output
    failure = FAILURE.replace("home/", "project/")
    last = f"exit code 0, but {failure}. {REMEDY}"
    lines = ended.output.splitlines()
    assert lines[-1] == f"[ma_boot] {last}"
    assert f"[node 1] [ma_boot] {last}" in lines
    assert any(line.startswith("[ma_boot] logs: ") for line in lines)
    (events,) = tmp_path.glob("ma_boot-rehearsal/*/log/*-events.jsonl")
    assert [event["cause"] for event in events_in(events) if event["kind"] == "job-end"] == [
        f"{failure}. {REMEDY}"
    ]
    (page,) = tmp_path.glob("ma_boot-rehearsal/*/report.html")
    assert "but a process of the training failed on node 1." in page.read_text()
