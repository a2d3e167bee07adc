"""Policies with GetObject and without ListBucket: single objects are read, and nothing else is taken for missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import path_mapping as mox
from path_mapping.errors import Forbidden
from tests.conftest import CREDENTIALS
from tests.functional.transfer.sync_command import sync
from tests.obs import MemoryObs
from tests.obs.faults import Fault, Seen
from tests.transfers import content_of, obs_store

KEYS = ("m/model.ckpt", "m/model.ckpt.json", "d/a", "d/b")
MANY = 1_000_000


@pytest.fixture
def at_obs(obs: MemoryObs, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """An OBS whose policy permits to read and write objects, as OBS answers then: 403 for missing ones, too."""
    store = obs_store(obs.url)
    for key in KEYS:
        store.write_bytes("bucket", key, key.encode())

    def is_forbidden(seen: Seen) -> bool:
        key = seen.path.strip("/").partition("/")[2]
        is_read = seen.operation in ("GetObject", "HeadObject")
        return seen.operation == "ListObjects" or (is_read and key not in KEYS)

    obs.faults.append(Fault(is_forbidden, MANY, status=403, code="AccessDenied"))
    environ = {"OBS_ENDPOINT": obs.url, **CREDENTIALS}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    mox.file.set_auth()  # opens a store by the variables
    yield environ
    mox.file.set_auth()


def test_mapping_of_a_single_object_is_downloaded(tmp_path: Path, at_obs: dict[str, str]) -> None:
    mapping = "input: {got: 'obs://bucket/m/model.ckpt', 'into/': 'obs://bucket/m/model.ckpt.json'}"
    plan = sync(tmp_path, "plan", mapping, **at_obs)
    assert plan.returncode == 0, plan.stdout
    assert "m/model.ckpt" in plan.stdout
    done = sync(tmp_path, "download", mapping, **at_obs)
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "got").read_text() == "m/model.ckpt"
    assert (tmp_path / "into" / "model.ckpt.json").read_text() == "m/model.ckpt.json"
    again = sync(tmp_path, "plan", mapping, **at_obs)
    assert "copy" not in again.stdout.replace("copy 0", ""), again.stdout


@pytest.mark.invariant("A refused listing is never taken for an empty one")
@pytest.mark.parametrize("key", ["d/", "d", ""])
@pytest.mark.parametrize("required", ["true", "false"])
def test_directory_names_the_missing_permission(
    tmp_path: Path, at_obs: dict[str, str], key: str, required: str
) -> None:
    mapping = f"input: {{in: {{obs: 'obs://bucket/{key}', required: {required}}}}}"
    for command in ("plan", "download"):
        done = sync(tmp_path, command, mapping, **at_obs)
        assert done.returncode == 69, done.stdout
        assert "HTTP 403 AccessDenied: a directory needs the permission to list the bucket (ListBucket)" in (
            done.stdout
        )
    assert not (tmp_path / "in").exists()


def test_missing_object_is_missing_or_forbidden(tmp_path: Path, at_obs: dict[str, str]) -> None:
    done = sync(tmp_path, "download", "input: {in: 'obs://bucket/m/none.ckpt'}", **at_obs)
    assert done.returncode == 69, done.stdout
    assert "it does not exist, or may not be read" in done.stdout
    with pytest.raises(Forbidden, match="it does not exist, or may not be read"):
        mox.file.exists("obs://bucket/m/none.ckpt")


def test_missing_object_of_a_service_that_says_so_is_no_directory_either(
    tmp_path: Path, at_obs: dict[str, str], obs: MemoryObs
) -> None:
    obs.faults[:] = [
        Fault(lambda seen: seen.operation == "ListObjects", MANY, status=403, code="AccessDenied")
    ]
    done = sync(tmp_path, "download", "input: {in: 'obs://bucket/d'}", **at_obs)
    assert done.returncode == 69, done.stdout
    assert "(ListBucket), and no object has this key" in done.stdout


def test_wrong_secret_key_is_not_a_missing_permission(
    tmp_path: Path, at_obs: dict[str, str], obs: MemoryObs
) -> None:
    del obs.faults[:]
    wrong = {**at_obs, "OBS_SECRET_ACCESS_KEY": "SKOTHER"}
    done = sync(tmp_path, "download", "input: {in: 'obs://bucket/m/model.ckpt'}", **wrong)
    assert done.returncode == 69, done.stdout
    assert "SignatureDoesNotMatch" in done.stdout
    assert "ListBucket" not in done.stdout


def test_single_files_are_copied_looked_up_and_read(tmp_path: Path, at_obs: dict[str, str]) -> None:
    url = "obs://bucket/m/model.ckpt"
    for copy in (mox.file.copy, mox.file.copy_parallel):
        target = tmp_path / copy.__name__
        copy(url, str(target))
        assert target.read_text() == "m/model.ckpt"
    assert mox.file.exists(url)
    assert mox.file.get_size(url) == len("m/model.ckpt")
    assert mox.file.read(url) == "m/model.ckpt"


@pytest.mark.parametrize("url", ["obs://bucket/d", "obs://bucket/d/", "obs://bucket"])
def test_directory_is_not_copied_as_if_it_were_empty(
    tmp_path: Path, at_obs: dict[str, str], url: str
) -> None:
    with pytest.raises(Forbidden, match="a directory needs the permission to list the bucket"):
        mox.file.copy_parallel(url, str(tmp_path / "got"))
    assert not (tmp_path / "got").exists()
    with pytest.raises(Forbidden):
        mox.file.is_directory(url)


def test_single_file_is_uploaded(tmp_path: Path, at_obs: dict[str, str], obs: MemoryObs) -> None:
    (tmp_path / "model").write_text("weights")
    done = sync(tmp_path, "upload", "output: {model: 'obs://bucket/out/model'}", **at_obs)
    assert done.returncode == 0, done.stdout
    del obs.faults[:]
    assert content_of(obs_store(obs.url), "out/model") == b"weights"
