"""`ma_boot sync prune`, as a user runs it: multipart uploads of killed runs, of live ones and of others, in radosgw."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from path_mapping.planning.record import BegunUploads
from tests.conformance.conftest import RADOSGW
from tests.conformance.faults.conftest import Bucket
from tests.functional.node import eventually
from tests.obs import Fault, operation

pytestmark = RADOSGW


@pytest.fixture
def home(bucket: Bucket, tmp_path: Path) -> Path:
    """A working directory with a mapping whose output is `out/`."""
    (tmp_path / "mapping.yaml").write_text(f"output: {{out: 'obs://{bucket.name}/out'}}\n")
    return tmp_path


def prune(bucket: Bucket, home: Path, *options: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "ma_boot", "sync", "prune", *options, "mapping.yaml"]
    return subprocess.run(argv, cwd=home, env=bucket.variables, capture_output=True, text=True, check=False)


def begun(bucket: Bucket, key: str) -> str:
    """A multipart upload with a part."""
    upload = bucket.witness.create_upload(key)
    assert bucket.witness.put_part(key, upload, 1, b"x" * 100).status == 200
    return upload


def noted(bucket: Bucket, home: Path, key: str) -> BegunUploads:
    """The same, noted as by a run of the output, which lives until `close`."""
    uploads = BegunUploads(home / "out", f"upload obs://{bucket.name}/out")
    uploads.begun(bucket.name, key, begun(bucket, key))
    return uploads


def keys(bucket: Bucket) -> list[str]:
    return sorted(key for key, _ in bucket.witness.uploads())


def files(home: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in home.iterdir() if path.is_file()}


def test_its_own_are_aborted_and_all_others_are_named(bucket: Bucket, home: Path) -> None:
    alive = noted(bucket, home, "out/alive")
    noted(bucket, home, "out/dead").close()
    for key in ("out/a/foreign", "out", "outside", "out2/x"):
        begun(bucket, key)
    done = prune(bucket, home)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"output out -> obs://{bucket.name}/out:"
    assert [(line.split()[0], line.split()[3]) for line in lines[1:-1]] == [
        ("keep", "out"),
        ("keep", "a/foreign"),
        ("keep", "alive"),
        ("abort", "dead"),
    ]
    assert "begun by another process or node" in lines[2]
    assert "begun by a process here that still runs" in lines[3]
    assert "begun by an earlier run here" in lines[4]
    assert lines[-1] == "in all: abort 1, keep 3"
    assert keys(bucket) == ["out", "out/a/foreign", "out/alive", "out2/x", "outside"]
    alive.close()
    assert prune(bucket, home).returncode == 0
    assert "out/alive" not in keys(bucket)
    assert list(files(home)) == ["mapping.yaml"], "nothing is noted any more"


def test_a_plan_changes_nothing(bucket: Bucket, home: Path) -> None:
    noted(bucket, home, "out/dead").close()
    begun(bucket, "out/foreign")
    before = files(home)
    done = prune(bucket, home, "--plan", "--json")
    assert done.returncode == 0, done.stderr
    documents: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["name"], row["action"]) for row in documents[:-1]] == [
        ("dead", "abort"),
        ("foreign", "keep"),
    ]
    assert documents[-1] == {"totals": {"abort": 1, "keep": 1}}
    assert keys(bucket) == ["out/dead", "out/foreign"]
    assert bucket.proxy.count("AbortMultipartUpload") == 0
    assert files(home) == before


def test_uploads_of_other_clients_are_aborted_by_their_age_only(bucket: Bucket, home: Path) -> None:
    begun(bucket, "out/foreign")
    begun(bucket, "outside")
    alive = noted(bucket, home, "out/alive")
    assert "keep 2" in prune(bucket, home, "--older-than", "1h").stdout
    assert keys(bucket) == ["out/alive", "out/foreign", "outside"]

    def aborted() -> bool:
        assert prune(bucket, home, "--older-than", "1s").returncode == 0
        return "out/foreign" not in keys(bucket)

    eventually(aborted, "the upload is a second old")
    assert keys(bucket) == ["out/alive", "outside"], "never that of a process that lives"
    alive.close()


def test_an_age_without_a_unit_is_refused(bucket: Bucket, home: Path) -> None:
    done = prune(bucket, home, "--older-than", "7")
    assert done.returncode == 64
    assert "expected e.g. 7d" in done.stderr


def test_an_upload_that_cannot_be_aborted_is_reported_and_stays_noted(bucket: Bucket, home: Path) -> None:
    noted(bucket, home, "out/dead").close()
    bucket.proxy.faults.append(Fault(operation("AbortMultipartUpload"), status=403, code="AccessDenied"))
    done = prune(bucket, home)
    assert done.returncode == 69
    assert "fail" in done.stdout
    assert f"obs://{bucket.name}/out/dead: " in done.stderr
    assert "AccessDenied" in done.stderr
    assert prune(bucket, home).returncode == 0
    assert keys(bucket) == []


def test_without_the_permission_to_list_its_own_are_aborted(bucket: Bucket, home: Path) -> None:
    noted(bucket, home, "out/dead").close()
    begun(bucket, "out/foreign")
    refused = Fault(operation("ListMultipartUploads"), times=2, status=403, code="AccessDenied")
    bucket.proxy.faults.append(refused)
    done = prune(bucket, home)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "in all: abort 1")
    assert keys(bucket) == ["out/foreign"]
    done = prune(bucket, home, "--older-than", "1s")
    assert done.returncode == 69
    assert "AccessDenied" in done.stderr


def test_one_that_has_gone_is_forgotten(bucket: Bucket, home: Path) -> None:
    noted(bucket, home, "out/dead").close()
    assert bucket.witness.abort(*bucket.witness.uploads()[0]).status == 204
    done = prune(bucket, home)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "in all: nothing to do")
    assert list(files(home)) == ["mapping.yaml"]


def test_a_directory_has_none(bucket: Bucket, home: Path) -> None:
    (home / "obs" / bucket.name).mkdir(parents=True)
    done = prune(bucket, home, "--obs-root", "obs")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "in all: nothing to do")
