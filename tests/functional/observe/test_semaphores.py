"""Semaphores in /dev/shm of ranks that were killed: they are removed, and nothing of anybody else."""

from __future__ import annotations

import importlib
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from ma_boot.node.observe.semaphores import PLACE, semaphores_in
from tests.functional.node import Booting, Node, eventually

CREATE = """
import _multiprocessing, sys
_multiprocessing.SemLock(1, 1, 1, sys.argv[1], False)  # as the spawn context of multiprocessing makes it
"""
TRAINING = """
import os, signal, sys, time
import _multiprocessing
signal.signal(signal.SIGTERM, signal.SIG_IGN)
lock = _multiprocessing.SemLock(1, 1, 1, f"/NAME-{os.environ['RANK_ID']}", False)
print("ready", flush=True)
while not os.path.exists("go"):
    time.sleep(0.05)
if os.environ["RANK_ID"] == "1":
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(600)
"""


@pytest.fixture
def name() -> Iterator[str]:
    """The beginning of the names of semaphores; those that a test leaves are removed."""
    name = f"ma_boot-test-{uuid.uuid4().hex[:8]}"
    yield name
    for file in PLACE.glob(f"sem.{name}*"):
        file.unlink()


def there(name: str) -> set[str]:
    return {file.name[len(f"sem.{name}") :] for file in PLACE.glob(f"sem.{name}*")}


def create(*names: str) -> None:
    """Another process makes semaphores, and ends without their removal."""
    for name in names:
        subprocess.run([sys.executable, "-c", CREATE, f"/{name}"], check=True)


def run_until_all_are_known(node: Node, name: str) -> Booting:
    """Starts two ranks that create a semaphore each, which ma_boot has seen in their maps."""
    node.devices = 2
    node.complete_table()
    (node.home / "train.py").write_text(TRAINING.replace("NAME", name))
    running = node.start("--stop-timeout", "1", "train.py")
    eventually(lambda: {"-0", "-1"} <= there(name), "the ranks have theirs")
    create(f"{name}-meanwhile")  # by a process that is none of the job
    eventually(
        lambda: [e for e in node.events() if e["kind"] == "semaphores" and e["known"] == 2], "all are seen"
    )
    return running


@pytest.mark.invariant("Only semaphores of the job that no process holds are removed")
def test_only_semaphores_of_killed_ranks_are_removed(node: Node, name: str) -> None:
    create(f"{name}-before")
    running = run_until_all_are_known(node, name)
    (node.home / "go").touch()
    ended = running.end()
    assert ended.code == 137, ended.output
    assert there(name) == {"-before", "-meanwhile"}, ended.output
    assert "removed 2 semaphores that ended processes left in /dev/shm" in ended.output


@pytest.mark.invariant("Only semaphores of the job that no process holds are removed")
def test_one_that_a_living_process_holds_stays(node: Node, name: str) -> None:
    running = run_until_all_are_known(node, name)
    held = importlib.import_module("_multiprocessing").SemLock._rebuild(
        0, 1, 1, f"/{name}-0"
    )  # by this process
    (node.home / "go").touch()
    assert running.end().code == 137
    assert there(name) == {"-0", "-meanwhile"}
    del held


def test_one_that_others_may_open_is_left_alone(name: str) -> None:
    create(f"{name}-0", f"{name}-1")
    (PLACE / f"sem.{name}-0").chmod(0o666)
    assert {name.rpartition("-")[2] for name, _ in semaphores_in(PLACE) if "ma_boot-test" in name} >= {"1"}
    assert not [found for found, _ in semaphores_in(PLACE) if found == f"sem.{name}-0"]
