"""`should_save()`: all ranks of a node are asked at the same step, by a file or before the time limit."""

from __future__ import annotations

import re

import pytest

from ma_boot.node.observe.saving import save_file
from ma_boot.training import save_request
from tests.functional.node import Node, eventually

TRAINING = """
import os, random, sys, time
from pathlib import Path
from ma_boot.training import should_save
rank = int(os.environ["RANK_ID"])
pauses = random.Random(rank)
for step in range(1, 100000):
    time.sleep(pauses.random() / 400)
    if should_save():
        Path(f"saved.{rank}.{os.environ.get('MABOOT_ATTEMPT', 1)}").write_text(str(step))
    if Path("all-saved").exists():
        sys.exit()
"""


@pytest.fixture
def training(node: Node) -> Node:
    node.devices = 4
    node.complete_table()
    (node.home / "train.py").write_text(TRAINING)
    return node


def saved(node: Node, attempt: int = 1) -> set[str]:
    """The step at which the ranks have saved, once all have."""
    files = [node.home / f"saved.{rank}.{attempt}" for rank in range(4)]
    eventually(lambda: all(file.exists() and file.read_text() for file in files), "all ranks save")
    return {file.read_text() for file in files}


def test_node_and_training_share_the_file_format() -> None:
    assert save_file.NUMBER.format == save_request.NUMBER.format


def test_the_users_file_makes_all_ranks_save_at_the_same_step(training: Node) -> None:
    running = training.start("train.py")
    for _ in range(3):
        eventually(lambda: training.in_phase("run"), "the run")
        wanted = training.log_dir / "save"
        wanted.touch()
        assert len(saved(training)) == 1
        eventually(lambda: not wanted.exists(), "that the file is gone")  # noqa: B023
        for file in training.home.glob("saved.*"):
            file.unlink()
    (training.home / "all-saved").touch()
    ended = running.end()
    assert ended.code == 0, ended.output
    assert len([event for event in training.events() if event["kind"] == "save"]) == 3
    assert re.search(
        r"save asks for a checkpoint: the ranks are asked to save at their step \d+", ended.output
    )


def test_the_time_limit_requests_one_checkpoint(training: Node) -> None:
    training.variables["MABOOT_TIME_LIMIT"] = "3"
    running = training.start("train.py")
    assert len(saved(training)) == 1
    (training.home / "all-saved").touch()
    ended = running.end()
    assert ended.code == 0, ended.output
    assert ended.output.count("the job's time ends 3.0 s after its start (MABOOT_TIME_LIMIT)") == 1


def test_a_request_that_an_attempt_does_not_fulfil_is_repeated_in_the_next(training: Node) -> None:
    training.variables.update(MABOOT_START_SECONDS="0")
    script = TRAINING.replace(
        "    if should_save():",
        "    if os.environ['MABOOT_ATTEMPT'] == '1' and step == 3:\n"
        "        Path(f'waits.{rank}').touch()\n"
        "        while not Path('goes').exists(): time.sleep(0.01)\n"
        "        os._exit(9)\n"
        "    if should_save():",
    )
    (training.home / "train.py").write_text(script)
    running = training.start("--max-restarts", "1", "train.py")
    eventually(lambda: len(list(training.home.glob("waits.*"))) == 4, "all ranks wait")
    (training.log_dir / "save").touch()
    eventually(lambda: any(event["kind"] == "save" for event in training.events()), "the question")
    (training.home / "goes").touch()
    assert len(saved(training, attempt=2)) == 1
    (training.home / "all-saved").touch()
    assert running.end().code == 0


def test_a_training_without_should_save_is_reported_once(training: Node) -> None:
    (training.home / "train.py").write_text(
        "import time\nfrom pathlib import Path\nwhile not Path('all-saved').exists(): time.sleep(0.01)\n"
    )
    running = training.start("train.py")
    eventually(lambda: training.in_phase("run"), "the run")
    (training.log_dir / "save").touch()
    eventually(lambda: any(event["kind"] == "save" for event in training.events()), "the line")
    (training.home / "all-saved").touch()
    assert running.end().output.count("no rank has called ma_boot.training.should_save() yet") == 1


def test_without_ma_boot_it_is_false(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(save_request.FILE, raising=False)
    assert not save_request.should_save()


def test_errors_are_printed_once_and_request_no_checkpoint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(save_request.FILE, "/nowhere/save")
    assert not save_request.should_save()
    assert not save_request.should_save()
    assert capsys.readouterr().err.count("not known whether to save: FileNotFoundError") == 1
