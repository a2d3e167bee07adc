"""`moxing_wrapper` in real processes: inputs once to a node, no waiting for a dead leader, output in any case."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.functional.node import eventually

TRAIN = """
import os, sys
from types import SimpleNamespace
from ma_boot.training import moxing_wrapper

config = SimpleNamespace(
    enable_modelarts=True, data_url="obs://bucket/data/", data_path="data", output_path="out",
    train_url="obs://bucket/out/", checkpoint_url="", load_path="",
)

@moxing_wrapper(lambda: print("before"), lambda: print("after"))
def train_net():
    rank = os.environ["RANK_ID"]
    print(config.device_num, config.device_id, open("data/a").read(), sorted(os.listdir("out")))
    open(f"out/{rank}.ckpt", "w").write(rank)
    if "fail" in sys.argv:
        raise ValueError("planted")

train_net()
"""
ONCE = """
import os, sys, time
from ma_boot.training.model_zoo import in_turn
def work():
    with open("log", "a") as log:
        log.write(f"{os.getpid()}\\n")
    while os.path.exists("hold"):
        time.sleep(0.01)
    if os.path.exists("fail"):
        os.unlink("fail")
        raise ValueError("planted")
open(f"here.{os.getpid()}", "w").close()
in_turn(os.getcwd(), work, once=True)
print("done", flush=True)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "obs" / "bucket" / "data").mkdir(parents=True)
    (tmp_path / "obs" / "bucket" / "data" / "a").write_text("input")
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "once.py").write_text(ONCE)
    return tmp_path


def start(home: Path, script: str, rank: int = 0, *arguments: str, **more: str) -> subprocess.Popen[str]:
    environ: dict[str, str] = {
        **os.environ, "RANK_ID": str(rank), "RANK_SIZE": "4", "DEVICE_ID": str(rank),
        "PATH_MAPPING_OBS_ROOT": str(home / "obs"), **more,
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, script, *arguments],
        cwd=home, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def test_four_processes_train_and_all_outputs_are_uploaded(home: Path) -> None:
    ranks = [start(home, "train.py", rank) for rank in range(4)]
    for rank, process in enumerate(ranks):
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, output
        assert f"4 {rank} input" in output
        assert output.startswith("before\n")
        assert output.endswith("after\n")
    sent = home / "obs" / "bucket" / "out"
    assert {path.name: path.read_text() for path in sent.iterdir()} == {
        f"{rank}.ckpt": str(rank) for rank in range(4)
    }


def test_failed_training_uploads_its_output_and_fails(home: Path) -> None:
    output, _ = (process := start(home, "train.py", 0, "fail")).communicate(timeout=60)
    assert process.returncode == 1
    assert "ValueError: planted" in output
    assert "after" not in output
    assert (home / "obs" / "bucket" / "out" / "0.ckpt").read_text() == "0"


def test_a_second_run_finds_the_output_of_the_first(home: Path) -> None:
    start(home, "train.py", 0).communicate(timeout=60)
    (home / "out" / "0.ckpt").unlink()
    output, _ = start(home, "train.py", 1).communicate(timeout=60)
    assert "input ['0.ckpt']" in output


def test_an_input_that_does_not_exist_is_an_error(home: Path) -> None:
    (home / "obs" / "bucket" / "data" / "a").unlink()
    (home / "obs" / "bucket" / "data").rmdir()
    output, _ = (process := start(home, "train.py")).communicate(timeout=60)
    assert process.returncode == 1
    assert "before" not in output


def test_no_transfer_without_enable_modelarts(home: Path) -> None:
    (home / "train.py").write_text(TRAIN.replace("enable_modelarts=True", "enable_modelarts=False"))
    (home / "data").mkdir()
    (home / "data" / "a").write_text("mine")
    output, _ = start(home, "train.py").communicate(timeout=60)
    assert "before" not in output
    assert not (home / "obs" / "bucket" / "out").exists()
    assert (home / "data" / "a").read_text() == "mine"


def waiting(home: Path, count: int) -> list[subprocess.Popen[str]]:
    """So many processes at the same work, which one of them has begun."""
    (home / "hold").write_text("")
    processes = [start(home, "once.py") for _ in range(count)]
    eventually(lambda: len(list(home.glob("here.*"))) == count and (home / "log").exists(), "all of them")
    # All of them have either the name or a connection to its owner: see /proc/net/unix.
    name = f"@ma_boot-{hashlib.sha256(str(home).encode()).hexdigest()}"
    eventually(lambda: Path("/proc/net/unix").read_text().count(name) >= count, "the others wait")
    return processes


def test_one_process_does_the_work_and_the_others_wait(home: Path) -> None:
    processes = waiting(home, 4)
    assert all(process.poll() is None for process in processes)
    (home / "hold").unlink()
    assert [process.communicate(timeout=30)[0] for process in processes] == ["done\n"] * 4
    assert len((home / "log").read_text().splitlines()) == 1


def test_processes_do_not_wait_for_a_killed_leader(home: Path) -> None:
    processes = waiting(home, 4)
    leader = int((home / "log").read_text())
    os.kill(leader, signal.SIGKILL)
    (home / "hold").unlink()
    started = time.monotonic()
    ended = sorted(process.communicate(timeout=30)[0] for process in processes)
    assert ended == ["", "done\n", "done\n", "done\n"]
    assert time.monotonic() - started < 10


def test_a_leader_that_fails_is_followed_by_another(home: Path) -> None:
    (home / "fail").write_text("")
    processes = waiting(home, 3)
    (home / "hold").unlink()
    outputs = [process.communicate(timeout=30)[0] for process in processes]
    assert sorted(process.returncode for process in processes) == [0, 0, 1]
    assert sum("ValueError: planted" in output for output in outputs) == 1
