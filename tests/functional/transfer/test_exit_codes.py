"""`ma_boot sync` and the start of a job with wrong credentials, odd trees and odd answers: the exit code fits the cause."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.clients import Account, Sdk
from tests.conftest import CREDENTIALS
from tests.functional.node import Node, eventually
from tests.functional.transfer.sync_command import start, sync
from tests.obs import MemoryObs, obs_fault
from tests.transfers import SilentHandler, serving, write

WRONG = {**CREDENTIALS, "OBS_SECRET_ACCESS_KEY": "wrong"}


@pytest.fixture
def at_obs(obs: MemoryObs) -> dict[str, str]:
    return {"OBS_ENDPOINT": obs.url, **CREDENTIALS}


@pytest.fixture
def client(obs: MemoryObs) -> Sdk:
    return Sdk(Account(obs.url, "AKPLANTED", "SKPLANTED"), "bucket", "v2")


def test_a_target_that_is_removed_during_the_download_is_a_local_cause(
    tmp_path: Path, client: Sdk, at_obs: dict[str, str], obs: MemoryObs
) -> None:
    client.put("data/a", b"a" * (4 << 20))
    obs.faults.append(obs_fault("drip", "GET", "/data/a"))  # so slowly that each attempt meets the removal
    removed = threading.Event()

    def remove() -> None:
        while not removed.wait(0.005):
            shutil.rmtree(tmp_path / "in", ignore_errors=True)

    remover = threading.Thread(target=remove)
    remover.start()
    try:
        done = sync(tmp_path, "download", "input: {in: 'obs://bucket/data/'}", **at_obs)
    finally:
        removed.set()
        remover.join()
    assert done.returncode == 73, done.stdout


def test_a_directory_in_the_place_of_a_file_is_a_local_cause(
    tmp_path: Path, client: Sdk, at_obs: dict[str, str]
) -> None:
    client.put("data/a", b"a")
    (tmp_path / "in" / "a").mkdir(parents=True)
    done = sync(tmp_path, "download", "input: {in: 'obs://bucket/data/'}", **at_obs)
    assert (done.returncode, "a directory is in the place of this file" in done.stdout) == (73, True), (
        done.stdout
    )


def test_a_page_in_the_place_of_a_listing_is_not_an_empty_one(tmp_path: Path) -> None:
    class Page(SilentHandler):
        def do_GET(self) -> None:
            body = b"<html><body>Please log in</body></html>"
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serving(Page) as url:
        for way in ("download", "plan"):
            done = sync(tmp_path, way, "input: {in: 'obs://bucket/data/'}", OBS_ENDPOINT=url, **CREDENTIALS)
            assert (done.returncode, "damaged" in done.stdout) == (69, True), done.stdout


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "obs" / "bucket").mkdir(parents=True)
    return str(tmp_path / "obs")


@pytest.mark.parametrize("name", ["n" * 255, "é" * 127], ids=["ascii", "utf-8"])
def test_a_name_beside_which_the_record_just_fits(tmp_path: Path, root: str, name: str) -> None:
    write(tmp_path, {f"{name}/a": b"a"})
    mapping = f"output: {{'{name}': 'obs://bucket/out/'}}"
    for expected in ("1 file,", "1 already present"):
        done = sync(tmp_path, "upload", mapping, "--obs-root", root)
        assert (done.returncode, expected in done.stdout) == (0, True), done.stdout


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A directory with a file 1,500 levels below it; pytest itself could not remove it."""
    top = tmp_path / "deep"
    top.mkdir()
    handle = os.open(top, os.O_RDONLY)
    try:
        for _ in range(1500):
            os.mkdir("d", dir_fd=handle)
            above, handle = handle, os.open("d", os.O_RDONLY, dir_fd=handle)
            os.close(above)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
        yield top
    finally:
        os.close(handle)
        subprocess.run(["rm", "-rf", str(top)], check=True)


def test_a_tree_1500_levels_deep(tmp_path: Path, root: str, deep: Path) -> None:
    write(deep, {"near": b"n"})
    done = sync(tmp_path, "upload", "output: {deep: 'obs://bucket/out/'}", "--obs-root", root)
    assert done.returncode == 74, done.stdout
    assert "Traceback" not in done.stdout
    assert "OBS allows 1024" in done.stdout
    assert (Path(root) / "bucket/out/near").read_bytes() == b"n"
    assert sync(tmp_path, "plan", "output: {deep: 'obs://bucket/out/'}", "--obs-root", root).returncode == 0


def test_an_upload_with_refused_credentials_is_69(tmp_path: Path, obs: MemoryObs) -> None:
    write(tmp_path, {"out/a": b"a"})
    done = sync(tmp_path, "upload", "output: {out: 'obs://bucket/out/'}", OBS_ENDPOINT=obs.url, **WRONG)
    assert done.returncode == 69, done.stdout
    assert ("PUT", "/bucket/out/a") not in obs.requests


def test_a_first_ctrl_c_ends_an_upload(tmp_path: Path, obs: MemoryObs, at_obs: dict[str, str]) -> None:
    write(tmp_path, {"out/a": b"a"})
    obs.faults.append(obs_fault("hang", "PUT", "/out/a"))
    running = start(tmp_path, "upload", "output: {out: 'obs://bucket/out/'}", **at_obs)
    eventually(lambda: ("PUT", "/bucket/out/a") in obs.requests, "the upload that hangs")
    begun = time.monotonic()
    running.send_signal(signal.SIGINT)
    output, _ = running.communicate(timeout=30)
    assert running.returncode == 130, output
    assert time.monotonic() - begun < 25


@pytest.fixture
def node(tmp_path: Path, obs: MemoryObs) -> Node:
    node = Node(tmp_path, devices=1)
    node.complete_table()
    (tmp_path / "train.py").write_text("open('trained', 'w').close()\n")
    node.variables.update(OBS_ENDPOINT=obs.url, **CREDENTIALS)
    return node


@pytest.mark.parametrize(
    ("secret", "bucket", "hint"), [("wrong", "bucket", "SignatureDoesNotMatch"), ("", "none", "NoSuchBucket")]
)
def test_outputs_that_cannot_be_uploaded_are_found_before_the_training(
    node: Node, secret: str, bucket: str, hint: str
) -> None:
    if secret:
        node.variables["OBS_SECRET_ACCESS_KEY"] = secret
    mapping = node.mapping({}, {"out": f"obs://{bucket}/out/"})[:2]
    for more in ([], ["--preflight"]):
        ended = node.boot(*mapping, *more, str(node.root / "train.py"))
        assert ended.code == 69, ended.output
        assert "outputs: " in ended.output
        assert hint in ended.output
        assert not (node.home / "trained").exists()


def test_outputs_that_may_be_written_and_not_listed_are_no_error(
    node: Node, obs: MemoryObs, client: Sdk
) -> None:
    obs.faults.append(obs_fault("403", "GET", "/bucket"))
    mapping = node.mapping({}, {"out": {"obs": "obs://bucket/out/", "required": False}})[:2]
    ended = node.boot(*mapping, str(node.root / "train.py"))
    assert ended.code == 0, ended.output
    obs.faults.clear()
    assert (client.page().keys, client.uploads()) == ([], [])
