"""Stop signals in every phase: exit code 143, no process left, the outputs so far uploaded."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ma_boot.desk.rehearsal.obs_server.faults import RequestFault
from tests.conftest import CREDENTIALS
from tests.functional.node import RANK, Booting, Ended, Node, alive, eventually, pids
from tests.obs import MemoryObs, obs_fault


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path)
    (node.home / "out").mkdir()
    (node.home / "out" / "earlier").write_text("of an earlier start")
    return node


def stopped_well(node: Node, ended: Ended, code: int = 143) -> None:
    """Checks the conditions that hold after each stop."""
    assert ended.code == code, ended.output
    assert (node.obs / "bucket" / "out" / "earlier").read_text() == "of an earlier start"
    assert "Traceback" not in ended.output
    processes = map(int, filter(str.isdecimal, os.listdir("/proc")))
    assert [pid for pid in processes if str(node.root) in _line(pid)] == []


def _line(pid: int) -> str:
    """The command line and the environment of a live process."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return ""
    return text.decode(errors="replace") if alive(pid) and pid != os.getpid() else ""


def outputs(node: Node) -> list[str]:
    return node.mapping({}, {"out": "obs://bucket/out/"})


def test_stop_while_a_shell_file_is_sourced(node: Node) -> None:
    script = node.root / "set_env.sh"
    script.write_text(f"touch {node.root}/sourcing; sleep 600\n")
    running = node.start(*outputs(node), "--source", str(script), RANK)
    eventually((node.root / "sourcing").exists, "the script runs")
    running.signal()
    stopped_well(node, running.end())


@pytest.mark.invariant("Every wait prints a line every half minute")
def test_stop_while_waiting_for_the_rank_table(node: Node) -> None:
    running = node.start(*outputs(node), RANK)
    eventually(lambda: node.in_phase("rank table"), "the wait")
    running.signal()
    stopped_well(node, running.end())


def test_stop_while_a_hanging_server_delays_inputs(node: Node, obs: MemoryObs) -> None:
    obs.faults.append(obs_fault("hang", "GET", "/bucket"))
    node.variables.update(OBS_ENDPOINT=obs.url, **CREDENTIALS)
    mapping = node.mapping({"data": "obs://bucket/data/"}, {"out": "obs://bucket/out/"})[:2]
    running = node.start(*mapping, RANK)
    eventually(lambda: obs.requests, "the request that hangs")
    running.signal()
    ended = running.end()
    assert ended.code == 143, ended.output
    assert ("PUT", "/bucket/out/earlier") in obs.requests
    assert "PLANTED" not in ended.output


@pytest.mark.invariant("Every wait prints a line every half minute")
def test_a_long_wait_prints_a_line_every_half_minute(tmp_path: Path, obs: MemoryObs) -> None:
    obs.faults.append(obs_fault("hang", "GET", "/bucket"))
    reachable = {"OBS_ENDPOINT": obs.url, **CREDENTIALS}
    for_table, for_inputs = (Node(tmp_path / name, variables=dict(reachable)) for name in ("a", "b"))
    for_inputs.complete_table()
    mapping = for_inputs.mapping({"data": "obs://bucket/data/"}, {})[:2]
    waiting = [for_table.start(*mapping, RANK), for_inputs.start(*mapping, RANK)]
    for running, line in zip(waiting, ("the file does not exist yet (2", "inputs: scanning")):
        running.until(line)
    for running in waiting:
        running.signal()
    table, inputs = (running.end().output for running in waiting)
    assert re.search(r"jobstart_hccl.json: the file does not exist yet \(2\d s of", table)
    assert "inputs: scanning" in inputs


def test_a_stopped_download_leaves_no_partial_file(node: Node, obs: MemoryObs) -> None:
    (node.home / "out" / "big").write_bytes(b"x" * (30 << 20))
    node.complete_table()
    node.variables.update(OBS_ENDPOINT=obs.url, **CREDENTIALS)
    assert node.boot(*outputs(node)[:2], RANK).code == 0
    obs.faults.append(obs_fault("drip", "GET", "/out/big"))
    running = node.start(*node.mapping({"in": "obs://bucket/out/"}, {})[:2], RANK)
    eventually(lambda: list((node.home / "in").glob(".big.*")), "the download")
    running.signal()
    ended = running.end()
    assert ended.code == 143, ended.output
    assert [path.name for path in (node.home / "in").iterdir()] in ([], ["earlier"])


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_stop_while_the_training_runs(node: Node, signum: int) -> None:
    node.complete_table()
    running = node.start(*outputs(node), RANK, "write:out/RANK:x", f"ready:{node.root}/pid", "sleep")
    ranks = pids(node.root, "pid.*", 2)
    running.signal(signum)
    stopped_well(node, running.end(), 128 + signum)
    assert (node.obs / "bucket" / "out" / "1").exists()
    assert not any(alive(pid) for pid in ranks)


def test_a_second_signal_ends_the_grace_period(node: Node) -> None:
    node.complete_table()
    running = node.start(
        *outputs(node), "--stop-timeout", "600", RANK, "deaf", f"ready:{node.root}/pid", "sleep"
    )
    pids(node.root, "pid.*", 2)
    running.signal()
    eventually(lambda: any(event["kind"] == "stop" for event in node.events()), "the stop")
    running.signal()
    stopped_well(node, running.end())


def uploading(node: Node, obs: MemoryObs, fault: RequestFault) -> Booting:
    """A job whose upload has met the fault."""
    obs.faults.append(fault)
    node.complete_table()
    node.variables.update(OBS_ENDPOINT=obs.url, **CREDENTIALS)
    running = node.start(*outputs(node)[:2], RANK)
    eventually(lambda: ("PUT", "/bucket/out/earlier") in obs.requests, "the upload that hangs")
    return running


def test_first_signal_does_not_interrupt_the_upload(node: Node, obs: MemoryObs) -> None:
    running = uploading(node, obs, obs_fault("hang", "PUT", "/out/earlier", times=1))
    running.signal()
    obs.release.set()  # the connection ends without an answer; the next attempt is served
    ended = running.end()
    assert ended.code == 143, ended.output
    assert "outputs: done" in ended.output
    assert obs.requests.count(("PUT", "/bucket/out/earlier")) == 2


def test_second_signal_ends_the_upload(node: Node, obs: MemoryObs) -> None:
    running = uploading(node, obs, obs_fault("hang", "PUT", "/out/earlier"))
    running.signal(signal.SIGTERM)
    running.signal(signal.SIGINT)
    ended = running.end()
    assert ended.code in (143, 130), ended.output
    assert "not every output was uploaded: interrupted by a second stop signal" in ended.output
    assert_names_the_unsent_file(node, ended)


def assert_names_the_unsent_file(node: Node, ended: Ended) -> None:
    assert "not known to be in OBS: 1 file, 19 B: out/earlier" in ended.output
    (event,) = (event for event in node.events() if event["kind"] == "unsent")
    assert event["files"] == 1
    assert event["paths"] == ["out/earlier"]


def test_a_hanging_upload_ends_at_its_deadline(node: Node, obs: MemoryObs) -> None:
    obs.faults.append(obs_fault("hang", "PUT", "/out/earlier"))
    node.complete_table()
    node.variables.update(OBS_ENDPOINT=obs.url, **CREDENTIALS)
    ended = node.boot(*outputs(node)[:2], "--upload-timeout", "0.5", RANK)
    assert ended.code == 74, ended.output
    assert_names_the_unsent_file(node, ended)


@pytest.mark.invariant("When a node ends, every file of an output is in OBS, or reported with exit code 74")
def test_checkpoints_not_uploaded_in_time_are_named(node: Node, obs: MemoryObs) -> None:
    obs.faults.append(obs_fault("hang", "PUT", "/step_3/"))
    node.complete_table()
    node.variables.update(OBS_ENDPOINT=obs.url, **CREDENTIALS)
    mapping = {"output": {"ckpt": {"obs": "obs://bucket/ckpt/", "checkpoint": "auto", "interval": 1}}}
    (node.root / "mapping.json").write_text(json.dumps(mapping))
    ended = node.boot(
        "--path-mapping", str(node.root / "mapping.json"), "--upload-timeout", "1.5",
        RANK, "write:ckpt/step_3/RANK:x", "write:ckpt/notes.txt:x",
    )  # fmt: skip
    assert ended.code == 74, ended.output
    assert "not known to be in OBS: 3 files, 3 B: " in ended.output
    assert "ckpt/step_3/1" in ended.output


def test_a_stop_before_the_first_line(node: Node) -> None:
    node.complete_table()
    running = node.start(*outputs(node), RANK, "sleep")
    eventually(lambda: Path(f"/proc/{running.process.pid}/cmdline").read_bytes(), "exec")
    running.signal(signal.SIGTERM)
    assert running.end().code in (
        143,
        -signal.SIGTERM,
    )


def test_stop_while_the_file_system_of_the_logs_hangs(node: Node) -> None:
    """Events go to a full pipe, so writes to it block. The ranks print on meanwhile."""
    node.complete_table()
    node.log_dir.mkdir(parents=True)
    file = node.log_dir / "modelarts-job-test-node-0-events.jsonl"
    os.mkfifo(file)
    events = os.open(file, os.O_RDWR | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        while os.write(events, b"x" * 4096):
            pass
    running = node.start(*outputs(node), RANK, f"ready:{node.root}/pid", "lines:100000", "sleep")
    ranks = pids(node.root, "pid.*", 2)
    sent = time.monotonic()
    running.signal()
    eventually(lambda: not any(alive(pid) for pid in ranks), "the ranks have ended")
    assert time.monotonic() - sent < 5, "nothing is written before the signal is passed on"
    stopped_well(node, running.end())
    os.close(events)
