"""Processes left by a test are gone before the next test starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.functional.node import alive, eventually
from tests.survivors import descendants, end_survivors

ROOT = Path(__file__).parents[2]
DETACHED = "setsid sh -c 'echo $$ > pid; exec sleep 600' & while [ ! -s pid ]; do sleep 0.01; done"
LEAVES_ONE = """
import subprocess

def test_it():
    subprocess.run(["sh", "-c", {detached!r}], cwd={cwd!r})
    assert {good}
"""


LEAVES_PIPES = """
import gc, subprocess

def test_first():
    process = subprocess.Popen(["sleep", "600"], stdout=subprocess.PIPE)
    assert False

def test_second():
    assert False

def test_third():
    gc.collect()
"""


def detached(place: Path) -> int:
    """Starts a process in a session of its own, whose parent has ended; returns its id."""
    subprocess.run(["sh", "-c", DETACHED], cwd=place, check=True)
    return int((place / "pid").read_text())


def test_process_in_its_own_session_is_found_and_killed(tmp_path: Path) -> None:
    before = descendants()
    pid = detached(tmp_path)
    assert descendants() - before == {pid}
    assert end_survivors(before, grace=0.1) == {pid: "sleep 600"}
    assert not Path(f"/proc/{pid}").exists()


def test_process_that_ends_in_time_is_no_survivor(tmp_path: Path) -> None:
    before = descendants()
    subprocess.run(["sh", "-c", "setsid sleep 0.2 &"], check=True)
    assert end_survivors(before) == {}
    assert descendants() == before


def run_test(place: Path, good: bool) -> str:
    """Returns the output of pytest for a test that leaves a process, and fails unless it is `good`."""
    output = output_of(place, LEAVES_ONE.format(detached=DETACHED, cwd=str(place), good=good))
    pid = int((place / "pid").read_text())
    eventually(lambda: not alive(pid), "the process of the test is killed")
    return output


def output_of(place: Path, tests: str) -> str:
    """Returns the output of pytest for these tests, of which at least one fails; warnings are errors."""
    (place / "test_it.py").write_text(tests)
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-W",
        "error",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        "test_it.py",
    ]
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environ = {**own, "PYTHONPATH": str(ROOT)}  # PYTEST_ADDOPTS is for the tests around it
    done = subprocess.run(argv, cwd=place, env=environ, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1, done.stdout
    return done.stdout


def test_failing_test_leaves_no_process(tmp_path: Path) -> None:
    assert "1 failed" in run_test(tmp_path, good=False).splitlines()[-1]


def test_pipes_of_a_failing_test_cause_no_warning_in_another_test(tmp_path: Path) -> None:
    assert "2 failed, 1 passed" in output_of(tmp_path, LEAVES_PIPES).splitlines()[-1]


def test_passing_test_that_leaves_a_process_fails(tmp_path: Path) -> None:
    output = run_test(tmp_path, good=True)
    assert "1 passed, 1 error" in output.splitlines()[-1]
    assert "outlived the test: {" in output
    assert "sleep 600" in output
