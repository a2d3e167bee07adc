"""Outputs are uploaded while the training runs: settled files only, one round at a time, then everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import CREDENTIALS
from tests.functional.node import Booting, Node, eventually
from tests.obs import MemoryObs, obs_fault

PROGRAM = """
import os, sys, time
from pathlib import Path
os.makedirs("out", exist_ok=True)
log = open("out/log", "w")
Path("out/step_1").write_text("first")
def wait(name):
    while not Path(name).exists():
        log.write("."); log.flush(); time.sleep(0.05)
wait("go-on")
Path("out/step_2").write_text("second")
wait("end")
"""


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path, devices=1)
    node.complete_table()
    (tmp_path / "train.py").write_text(PROGRAM)
    return node


def start(node: Node, obs: MemoryObs | None = None) -> Booting:
    """Starts the job with a directory in the place of OBS, or with this server."""
    options = node.mapping({}, {"out": {"obs": "obs://bucket/out/", "interval": 1}})
    if obs is not None:
        options = options[:2]
        node.variables.update(OBS_ENDPOINT=obs.url, **CREDENTIALS)
    return node.start(*options, str(node.root / "train.py"))


def stored(node: Node) -> list[str]:
    return sorted(path.name for path in (node.obs / "bucket" / "out").glob("[!.]*"))


def test_settled_files_are_uploaded_early_and_open_ones_at_the_end(node: Node) -> None:
    running = start(node)
    eventually(lambda: stored(node) == ["step_1"], "the first checkpoint in OBS")
    (node.home / "go-on").touch()
    eventually(lambda: stored(node) == ["step_1", "step_2"], "the second checkpoint in OBS")
    (node.home / "end").touch()
    ended = running.end()
    assert ended.code == 0, ended.output
    assert stored(node) == ["log", "step_1", "step_2"]
    assert (node.obs / "bucket/out/log").read_text() == (node.home / "out/log").read_text()
    assert "outputs so far: 1 file," in ended.output
    assert "outputs: done" in ended.output
    assert "1 file, " in ended.output.rpartition("outputs: done")[2]


def test_a_stop_ends_the_round_and_the_last_upload_needs_no_listing(node: Node, obs: MemoryObs) -> None:
    obs.faults.append(obs_fault("hang", "PUT", "/out/step_1", times=1))
    running = start(node, obs)
    eventually(lambda: ("PUT", "/bucket/out/step_1") in obs.requests, "the upload that hangs")
    listings = len(obs.requests)
    running.signal()
    ended = running.end()
    assert ended.code == 143, ended.output
    assert "outputs: done" in ended.output
    later = obs.requests[listings:]
    assert sorted(later) == [("PUT", "/bucket/out/log"), ("PUT", "/bucket/out/step_1")]


def test_a_failed_round_is_reported_and_retried(node: Node, obs: MemoryObs) -> None:
    obs.faults.append(obs_fault("403", "PUT", "/out/step_1", times=1))
    running = start(node, obs)
    eventually(lambda: obs.requests.count(("PUT", "/bucket/out/step_1")) == 2, "the second attempt")
    for name in ("go-on", "end"):
        (node.home / name).touch()
    ended = running.end()
    assert ended.code == 0, ended.output
    assert "the next round retries: 1 of 1 files failed" in ended.output
