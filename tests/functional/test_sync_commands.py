"""`ma_boot sync`: a user moves inputs and outputs without a job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

from ma_boot.local.obs_server import Fault, ObsServer
from tests.conftest import CREDENTIALS
from tests.functional.node import eventually

MAPPING = """
input:
  data: {obs: 'obs://bucket/data/', shard: true, exclude: ['*.tmp']}
  extra: {obs: obs://bucket/extra, required: false}
output:
  ckpt: obs://bucket/{job}/node-{node}/rank-{rank}/
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a mapping, a bucket beside it, and an output."""
    for name, content in {
        "obs/bucket/data/a": "aaa",
        "obs/bucket/data/b.tmp": "b",
        "home/ckpt/c": "c",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "home" / "mapping.yaml").write_text(MAPPING)
    return tmp_path / "home"


def sync(home: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    root = [] if "OBS_ENDPOINT" in variables else ["--obs-root", str(home.parent / "obs")]
    environ = {"PATH": os.environ["PATH"], "MA_VJ_NAME": "ma-job-x", **variables}
    argv = [sys.executable, "-m", "ma_boot", "sync", arguments[0], *root, *arguments[1:]]
    return subprocess.run(argv, cwd=home, env=environ, capture_output=True, text=True, check=False)


def documents(done: subprocess.CompletedProcess[str]) -> List[Dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_plan_says_what_and_why_and_moves_nothing(home: Path) -> None:
    before = sorted(home.parent.rglob("*"))
    done = sync(home, "plan", "mapping.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "input data <- obs://bucket/data/:",
        "  copy                 3  a  (not here)",
        "  skip                 1  b.tmp  (not selected)",
        "  copy 1 (0.0 MB), skip 1 (0.0 MB)",
        "input extra <- obs://bucket/extra: nothing there",
        "output ckpt -> obs://bucket/modelarts-job-x/node-0/rank-0/:",
        "  copy                 1  c  (not in OBS)",
        "  copy 1 (0.0 MB)",
        "in all: copy 2 (0.0 MB), skip 1 (0.0 MB)",
    ]
    assert sorted(home.parent.rglob("*")) == before


def test_download_and_upload_do_what_the_plan_says(home: Path) -> None:
    for way in ("download", "upload"):
        for said in ("1 files, 0.0 MB in 0.0 s", "0 files, 0.0 MB in 0.0 s, 1 were there"):
            done = sync(home, way, "mapping.yaml")
            assert done.returncode == 0
            assert said in done.stdout
    assert (home / "data" / "a").read_text() == "aaa"
    assert not (home / "data" / "b.tmp").exists()
    assert (home.parent / "obs/bucket/modelarts-job-x/node-0/rank-0/c").read_text() == "c"
    found = documents(sync(home, "plan", "--json", "mapping.yaml"))
    assert {one["action"] for one in found if "action" in one} == {"skip"}
    assert found[-1] == {"totals": {"skip": {"files": 3, "bytes": 5}}}


def test_each_node_of_a_job_has_its_part_and_its_place(home: Path) -> None:
    (home.parent / "obs/bucket/data/z").write_text("zzz")
    node = {"MA_NUM_HOSTS": "2", "VC_TASK_INDEX": "1", "MA_NUM_GPUS": "8"}
    found = documents(sync(home, "plan", "--json", "mapping.yaml", **node))
    assert [one["name"] for one in found if one.get("action") == "copy"] == ["z", "c"]
    assert sync(home, "upload", "mapping.yaml", **node).returncode == 0
    assert (home.parent / "obs/bucket/modelarts-job-x/node-1/rank-8/c").exists()
    found = documents(sync(home, "plan", "--json", "--shard", "0/2", "mapping.yaml", **node))
    assert [one["name"] for one in found if one.get("action") == "copy"] == ["a"]


def test_checksum_finds_what_size_and_time_do_not_show(home: Path) -> None:
    sync(home, "download", "mapping.yaml")
    file = home / "data" / "a"
    status = file.stat()
    file.write_text("bad")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert "0 files" in sync(home, "download", "mapping.yaml").stdout
    assert "1 files" in sync(home, "download", "--checksum", "mapping.yaml").stdout
    assert file.read_text() == "aaa"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["plan", "none.yaml"], 78, "cannot be read"),
        (["plan", "--shard", "2/2", "mapping.yaml"], 64, "found '2/2', expected as in 0/4"),
        (["plan", "wrong.yaml"], 78, "line 1: found the key 'in', expected 'input' or 'output'"),
        (["plan", "missing.yaml"], 66, "inputs that are not in OBS:\n  - obs://bucket/none"),
        (["download", "missing.yaml"], 66, "obs://bucket/none"),
        (["upload", "missing.yaml"], 74, "left nothing at these output paths"),
    ],
)
def test_what_goes_wrong_is_told_with_its_exit_code(
    home: Path, arguments: List[str], code: int, said: str
) -> None:
    (home / "wrong.yaml").write_text("in: {}")
    (home / "missing.yaml").write_text("input: {a: 'obs://bucket/none'}\noutput: {gone: 'obs://bucket/x'}")
    done = sync(home, *arguments)
    assert done.returncode == code
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_plan_tells_refusals_and_ends_with_73(home: Path, tmp_path: Path) -> None:
    (home.parent / "obs/bucket/data/A").mkdir()
    (home / "data").mkdir()
    (home / "data" / "A").write_text("a file where a directory is to be")
    done = sync(home, "plan", "mapping.yaml")
    assert "  refuse               0  A/  (a file is in the place of this directory)" in done.stdout
    assert done.returncode == 73


def test_real_obs_that_refuses_is_69_and_shows_no_secret(home: Path, obs: ObsServer) -> None:
    obs.faults.append(Fault("403", "GET", "/bucket"))
    for command in ("plan", "download"):
        done = sync(home, command, "mapping.yaml", OBS_ENDPOINT=obs.url, **CREDENTIALS)
        assert done.returncode == 69
        assert "HTTP 403" in done.stderr
        assert "PLANTED" not in done.stdout + done.stderr


def test_a_download_that_is_stopped_ends_soon_and_says_so(home: Path, obs: ObsServer) -> None:
    obs.faults.append(Fault("hang", "GET", "/bucket"))
    environ = {"PATH": os.environ["PATH"], "OBS_ENDPOINT": obs.url, **CREDENTIALS}
    argv = [sys.executable, "-m", "ma_boot", "sync", "download", "mapping.yaml"]
    with subprocess.Popen(argv, cwd=home, env=environ, stderr=subprocess.PIPE, text=True) as process:
        eventually(lambda: obs.requests, "the first request")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 143
    assert "stopped by SIGTERM" in errors
