"""`ma_boot sync`: a user transfers inputs and outputs without a job."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ma_boot.desk.rehearsal.obs_server.signatures import KeyPair
from tests.conftest import CREDENTIALS
from tests.functional.node import eventually
from tests.functional.terminal import screen_lines
from tests.obs import Fault, FaultProxy, MemoryObs, obs_fault, operation
from tests.transfers import obs_store, route, send, write

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


def start(home: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    environ = {"PATH": os.environ["PATH"], **variables}
    argv = [sys.executable, "-m", "ma_boot", "sync", *arguments]
    return subprocess.Popen(
        argv, cwd=home, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def documents(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_plan_prints_files_with_reasons_and_transfers_no_file(home: Path) -> None:
    before = sorted(home.parent.rglob("*"))
    done = sync(home, "plan", "mapping.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "input data <- obs://bucket/data/:",
        "  copy                 3  a  (not here)",
        "  skip                 1  b.tmp  (not selected)",
        "  copy 1 (3 B), skip 1 (1 B)",
        "input extra <- obs://bucket/extra: nothing there",
        "output ckpt -> obs://bucket/modelarts-job-x/node-0/rank-0/:",
        "  copy                 1  c  (not in OBS)",
        "  copy 1 (1 B)",
        "in all: copy 2 (4 B), skip 1 (1 B)",
    ]
    assert sorted(home.parent.rglob("*")) == before


def test_download_and_upload_follow_the_plan(home: Path) -> None:
    for way in ("download", "upload"):
        for detail in (r"1 file, [13] B in [0-9.]+ s", r"0 files, 0 B in [0-9.]+ s, 1 already present"):
            done = sync(home, way, "mapping.yaml")
            assert done.returncode == 0
            assert re.search(rf"\[ma_boot\] (in|out)puts: done in [0-9.]+ s: {detail}", done.stdout)
            assert "\x1b" not in done.stdout, "no bar without a terminal"
    assert (home / "data" / "a").read_text() == "aaa"
    assert not (home / "data" / "b.tmp").exists()
    assert (home.parent / "obs/bucket/modelarts-job-x/node-0/rank-0/c").read_text() == "c"
    lines = documents(sync(home, "plan", "--json", "mapping.yaml"))
    assert {line["action"] for line in lines if "action" in line} == {"skip"}
    assert lines[-1] == {"totals": {"skip": {"files": 3, "bytes": 5}}}


def test_node_of_a_job_has_its_own_shard_and_output_path(home: Path) -> None:
    (home.parent / "obs/bucket/data/z").write_text("zzz")
    node = {"MA_NUM_HOSTS": "2", "VC_TASK_INDEX": "1", "MA_NUM_GPUS": "8"}
    lines = documents(sync(home, "plan", "--json", "mapping.yaml", **node))
    assert [line["name"] for line in lines if line.get("action") == "copy"] == ["z", "c"]
    assert sync(home, "upload", "mapping.yaml", **node).returncode == 0
    assert (home.parent / "obs/bucket/modelarts-job-x/node-1/rank-8/c").exists()
    lines = documents(sync(home, "plan", "--json", "--shard", "0/2", "mapping.yaml", **node))
    assert [line["name"] for line in lines if line.get("action") == "copy"] == ["a"]


def test_checksum_finds_changes_with_equal_size_and_time(home: Path) -> None:
    sync(home, "download", "mapping.yaml")
    file = home / "data" / "a"
    status = file.stat()
    file.write_text("bad")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert "0 files" in sync(home, "download", "mapping.yaml").stdout
    assert "1 file," in sync(home, "download", "--checksum", "mapping.yaml").stdout
    assert file.read_text() == "aaa"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["plan", "none.yaml"], 78, "cannot be read"),
        (["plan", "--shard", "2/2", "mapping.yaml"], 64, "found '2/2', expected e.g. 0/4"),
        (["plan", "wrong.yaml"], 78, "line 1: found the key 'in', expected one of input, output"),
        (
            ["plan", "missing.yaml"],
            66,
            "not in OBS, neither an object nor anything below it:\n  - obs://bucket/none",
        ),
        (["download", "missing.yaml"], 66, "obs://bucket/none"),
        (["upload", "missing.yaml"], 74, "there is nothing to upload at these output paths"),
    ],
)
def test_failures_are_reported_with_their_exit_codes(
    home: Path, arguments: list[str], code: int, message: str
) -> None:
    (home / "wrong.yaml").write_text("in: {}")
    (home / "missing.yaml").write_text("input: {a: 'obs://bucket/none'}\noutput: {gone: 'obs://bucket/x'}")
    done = sync(home, *arguments)
    assert done.returncode == code
    assert message in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_plan_with_refused_files_exits_with_73(home: Path, tmp_path: Path) -> None:
    (home.parent / "obs/bucket/data/A").mkdir()
    (home / "data").mkdir()
    (home / "data" / "A").write_text("a file where a directory is to be")
    done = sync(home, "plan", "mapping.yaml")
    assert "  refuse               0  A/  (a file is in the place of this directory)" in done.stdout
    assert done.returncode == 73


def test_access_denied_by_obs_exits_with_69_and_shows_no_secret(home: Path, obs: MemoryObs) -> None:
    obs.faults.append(obs_fault("403", "GET", "/bucket"))
    for command in ("plan", "download"):
        done = sync(home, command, "mapping.yaml", OBS_ENDPOINT=obs.url, **CREDENTIALS)
        assert done.returncode == 69
        assert "HTTP 403" in done.stderr
        assert "  -> the owner of OBS_ACCESS_KEY_ID lacks a permission" in done.stderr
        assert "PLANTED" not in done.stdout + done.stderr


def test_corrupt_large_file_exits_with_69_and_is_removed(home: Path, obs: MemoryObs, tmp_path: Path) -> None:
    content = b"0123456789abcdef" * (33 << 16)  # three ranges
    write(tmp_path / "out", {"large": content})
    send(obs_store(obs.url), tmp_path, route("out", "data/"))
    with FaultProxy(obs.url) as proxy:
        proxy.faults.append(Fault(operation("GetObject"), times=6, flip_answer=1 << 20))
        failed = sync(home, "download", "mapping.yaml", OBS_ENDPOINT=proxy.url, **CREDENTIALS)
        assert failed.returncode == 69
        assert "the CRC-64 in OBS is" in failed.stdout + failed.stderr
        assert not (home / "data" / "large").exists()
        encrypted = {"x-amz-server-side-encryption": "aws:kms"}
        without = ("x-amz-checksum-crc64ecma",)
        proxy.faults[:] = [Fault(operation("HeadObject"), without=without, with_headers=encrypted)]
        done = sync(home, "download", "mapping.yaml", OBS_ENDPOINT=proxy.url, **CREDENTIALS)
        assert done.returncode == 0
        assert re.search(r"1 file, .*, length only: 1 file\b", done.stdout), done.stdout
    assert (home / "data" / "large").read_bytes() == content


def test_unreachable_endpoint_is_reported_with_advice(home: Path) -> None:
    done = sync(home, "plan", "mapping.yaml", OBS_ENDPOINT="http://127.0.0.1:1", **CREDENTIALS)
    assert done.returncode == 69
    assert "listing obs://bucket/data/: no connection to 127.0.0.1:1: Connection refused" in done.stderr
    assert "  -> no response: is OBS_ENDPOINT" in done.stderr


def test_missing_credentials_are_reported_with_advice(home: Path) -> None:
    done = sync(home, "plan", "mapping.yaml", OBS_ENDPOINT="https://obs.example.com")
    assert done.returncode == 78
    assert (
        "OBS_ACCESS_KEY_ID, OBS_SECRET_ACCESS_KEY\n  -> on ModelArts set them in the job's environment variables; on a laptop export them"
        in done.stderr
    )


def test_stopped_download_ends_soon_and_reports_it(home: Path, obs: MemoryObs) -> None:
    obs.faults.append(obs_fault("hang", "GET", "/bucket"))
    with start(home, "download", "mapping.yaml", OBS_ENDPOINT=obs.url, **CREDENTIALS) as process:
        eventually(lambda: obs.requests, "the first request")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 143
    assert "stopped by SIGTERM" in errors


def keys(access: str) -> str:
    """Returns credentials in the format of IAM."""
    inner = {"access": access, "secret": "SKPLANTED", "securitytoken": "TOKENPLANTED", "expires_at": "soon"}
    return json.dumps({"credential": inner})


class TestCredentials:
    """Temporary credentials that expire."""

    @pytest.mark.parametrize(
        ("method", "part"),
        [("GET", "prefix="), ("POST", "uploads"), ("PUT", "partNumber=2"), ("POST", "uploadId=")],
    )
    def test_credentials_file_is_reread_wherever_credentials_expire(
        self, home: Path, obs: MemoryObs, method: str, part: str
    ) -> None:
        """In the listing, and at the beginning, in the middle and at the end of a multipart upload."""
        with (home / "ckpt" / "large").open("wb") as large:
            large.truncate(80 << 20)
        obs.credentials[:] = [KeyPair(key, "SKPLANTED", "TOKENPLANTED") for key in ("AKOLD", "AKNEW")]
        obs.faults.append(obs_fault("expired", method, part, times=1))
        file = home / "keys.json"
        os.mkfifo(file)  # each read gets a new content

        def rotate() -> None:
            with file.open("w") as first:
                os.mkfifo(home / "next")
                (home / "next").replace(file)
                first.write(keys("AKOLD"))
            with file.open("w") as second:  # returns when it is read again
                del obs.credentials[0]
                second.write(keys("AKNEW"))

        rotation = threading.Thread(target=rotate)
        rotation.start()
        done = sync(home, "upload", "mapping.yaml", OBS_ENDPOINT=obs.url, OBS_CREDENTIALS_FILE=str(file))
        os.close(os.open(file, os.O_RDONLY | os.O_NONBLOCK))  # unblocks `rotate` if nobody reads again
        rotation.join()
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        assert "2 files, 83.9 MB" in done.stdout

    def test_unchanged_credentials_file_is_an_error(self, home: Path, obs: MemoryObs) -> None:
        obs.faults.append(obs_fault("expired", "GET", "prefix="))
        file = home / "keys.json"
        file.write_text(keys("AKPLANTED"))
        variables = {"OBS_CREDENTIALS_FILE": str(file), "OBS_CREDENTIALS_WAIT": "0.5"}
        done = sync(home, "download", "mapping.yaml", OBS_ENDPOINT=obs.url, **variables)
        assert done.returncode == 69
        assert "refused the credentials as expired; waiting up to 0.5 s for new ones" in done.stderr
        assert "HTTP 403 ExpiredToken" in done.stderr
        assert "PLANTED" not in done.stdout + done.stderr

    def test_late_renewal_of_the_credentials_file_is_waited_for(self, home: Path, obs: MemoryObs) -> None:
        file = home / "keys.json"
        file.write_text(keys("AKOLD"))
        obs.credentials[:] = [KeyPair("AKNEW", "SKPLANTED", "TOKENPLANTED")]
        variables = {"MA_VJ_NAME": "ma-job-x", "OBS_ENDPOINT": obs.url, "OBS_CREDENTIALS_FILE": str(file)}
        with start(home, "upload", "mapping.yaml", **variables) as process:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert "refused the credentials as expired; waiting up to 60 s for new ones" in line
            file.write_text("half")  # not replaced by a rename
            time.sleep(0.5)
            file.write_text(keys("AKNEW"))
            _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, line + errors

    @pytest.mark.parametrize("seconds", ["soon", "-1", "nan", "inf"])
    def test_invalid_wait_is_an_error(self, home: Path, seconds: str) -> None:
        (home / "keys.json").write_text(keys("AKPLANTED"))
        variables = {"OBS_CREDENTIALS_FILE": str(home / "keys.json"), "OBS_CREDENTIALS_WAIT": seconds}
        done = sync(home, "plan", "mapping.yaml", OBS_ENDPOINT="http://127.0.0.1:9", **variables)
        assert done.returncode == 78
        assert f"OBS_CREDENTIALS_WAIT: found '{seconds}', expected 0 to 86400 seconds" in done.stderr

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (None, "No such file"),
            ("AKPLANTED", "is not JSON; expected"),
            ('["AKPLANTED"]', "has no access, secret, securitytoken; expected"),
            ('{"access": "AKPLANTED", "secret": 5, "securitytoken": "x"}', "has no secret; expected"),
        ],
    )
    def test_invalid_credentials_file_is_an_error_without_its_content(
        self, home: Path, content: str | None, reason: str
    ) -> None:
        if content is not None:
            (home / "keys.json").write_text(content)
        file = str(home / "keys.json")
        done = sync(
            home, "plan", "mapping.yaml", OBS_ENDPOINT="http://127.0.0.1:9", OBS_CREDENTIALS_FILE=file
        )
        assert done.returncode == 78
        assert f"OBS_CREDENTIALS_FILE: {file}" in done.stderr
        assert reason in done.stderr
        assert "PLANTED" not in done.stderr


def test_stalled_request_fails_after_the_stall_timeout(home: Path, obs: MemoryObs) -> None:
    obs.faults.append(obs_fault("hang", "PUT", "/ckpt"))
    begun = time.monotonic()
    (home / "own.yaml").write_text("output: {ckpt: 'obs://bucket/ckpt/'}")
    variables = {"MABOOT_STALL_TIMEOUT": "0.2", "OBS_ENDPOINT": obs.url, **CREDENTIALS}
    done = sync(home, "upload", "--timeout", "3", "own.yaml", **variables)
    assert done.returncode == 74
    assert "no progress for 0.2 s" in done.stdout + done.stderr
    assert time.monotonic() - begun < 30


class TestProgress:
    """Progress of a long transfer on a terminal."""

    def test_terminal_shows_a_bar_with_lines_above_it(self, home: Path, obs: MemoryObs) -> None:
        environ = {"PATH": os.environ["PATH"], "OBS_ENDPOINT": obs.url, "TERM": "xterm", **CREDENTIALS}
        with (home / "ckpt" / "large").open("wb") as large:
            large.truncate(30 << 20)
        os.mkfifo(home / "ckpt" / "pipe")  # causes a notice while there is a bar
        obs.faults.append(
            Fault(
                lambda seen: seen.method == "PUT" and "/large" in seen.target,
                status=503,
                code="SlowDown",
                with_headers={"Retry-After": "1"},
            )
        )  # so that it takes a while
        screen, terminal = pty.openpty()
        argv = [sys.executable, "-m", "ma_boot", "sync", "upload", "mapping.yaml"]
        with subprocess.Popen(argv, cwd=home, env=environ, stdout=terminal) as process:
            os.close(terminal)
            shown = b""
            with suppress(OSError):  # the end of a terminal
                while piece := os.read(screen, 65536):
                    shown += piece
            assert process.wait() == 0
        os.close(screen)
        assert re.search(rb"outputs.*1/2 files.*31.5/31.5 MB.*[MG]B/s", shown), shown
        lines = list(filter(None, screen_lines(shown, rows=24, columns=400)))
        assert re.match(r"\[ma_boot\] outputs: done in .* s: 2 files, 31.5 MB in", lines[-1]), lines
        assert re.match(r"\[ma_boot\] .*pipe", lines[-2]), lines
