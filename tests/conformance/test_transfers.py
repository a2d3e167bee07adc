"""Inputs and outputs, against the embedded server and against radosgw."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from path_mapping.errors import MissingInputs, NotFound, Refused, Replaced, TransferFailed
from path_mapping.stores.obs_store import ObsStore
from path_mapping.transfer.scheduler import Progress
from path_mapping.transfer.transfer import Transferred
from tests import transfers
from tests.conformance.clients import Account, Client, Sdk
from tests.conformance.conftest import MIB, ON_BOTH, store_of
from tests.transfers import route, tree, write

LARGE = random.Random(3).randbytes(40 * MIB + 5)  # more than one range
ODD = [
    "plain",
    "new\nline",
    "back\\slash",
    "-rf *",
    "é ü/数据",
    "deep/" + "/".join(["d" * 200] * 4),
    "%2F+&=?#",
]

pytestmark = ON_BOTH


@pytest.fixture
def bucket(client: Client) -> str:
    return client.bucket


def fetch(store: ObsStore, bucket: str, base: Path, key: str = "data/") -> Transferred:
    return transfers.fetch(store, base, route("in", key, bucket))


def send(store: ObsStore, bucket: str, base: Path) -> Transferred:
    return transfers.send(store, base, route("out", "data/", bucket))


def outputs(base: Path, files: dict[str, bytes]) -> Path:
    write(base / "out", files)
    return base


def test_a_round_trip_and_nothing_is_moved_twice(account: Account, bucket: str, tmp_path: Path) -> None:
    files = {**{name: name.encode() for name in ODD}, "large": LARGE, "none": b""}
    store = store_of(account)
    (outputs(tmp_path, files) / "out" / "empty").mkdir()
    assert send(store, bucket, tmp_path).files == len(files)
    assert fetch(store, bucket, tmp_path).files == len(files)
    assert tree(tmp_path / "in") == files
    assert (tmp_path / "in" / "empty").is_dir()
    for again in (send(store, bucket, tmp_path), fetch(store, bucket, tmp_path)):
        assert (again.files, again.skipped) == (0, len(files))


def test_many_small_files_by_worker_processes(account: Account, bucket: str, tmp_path: Path) -> None:
    files = {f"{number % 7}/{number}": b"%d" % number for number in range(450)}
    store = store_of(account)
    assert send(store, bucket, outputs(tmp_path, files)).files == 450
    assert fetch(store, bucket, tmp_path).files == 450
    assert tree(tmp_path / "in") == files


def test_a_refused_listing_is_not_an_empty_one(account: Account, bucket: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="HTTP 403"):
        fetch(store_of(replace(account, secret_key="wrong")), bucket, tmp_path)
    with pytest.raises(TransferFailed, match="HTTP 403"):
        send(store_of(replace(account, secret_key="wrong")), bucket, outputs(tmp_path, {"a": b"a"}))


def test_a_missing_input_and_a_missing_bucket_are_named(
    account: Account, bucket: str, tmp_path: Path
) -> None:
    for name, key in ((bucket, "none/"), (bucket, "none"), ("no-such-bucket", "x/")):
        with pytest.raises(MissingInputs) as raised:
            fetch(store_of(account), name, tmp_path, key)
        assert raised.value.urls == (f"obs://{name}/{key}",)


def test_an_output_for_a_bucket_that_is_missing(account: Account, bucket: str, tmp_path: Path) -> None:
    with pytest.raises(TransferFailed) as raised:
        send(store_of(account), "no-such-bucket", outputs(tmp_path, {"a": b"a"}))
    assert isinstance(raised.value.failures[0].error, NotFound)


def test_an_object_replaced_during_its_download_is_never_mixed(
    account: Account, bucket: str, tmp_path: Path
) -> None:
    store, other = store_of(account), LARGE[::-1]
    send(store, bucket, outputs(tmp_path, {"large": LARGE}))
    client, replaced = Sdk(account, bucket, "v2"), threading.Event()

    def overwrite(progress: Progress) -> None:
        if progress.bytes_done and not replaced.is_set():
            replaced.set()
            assert client.put("data/large", other).status == 200

    with pytest.raises(TransferFailed) as raised:
        transfers.fetch(store, tmp_path, route("in", "data/", bucket), progress=overwrite)
    assert isinstance(raised.value.failures[0].error, Replaced)
    fetch(store, bucket, tmp_path)
    assert tree(tmp_path / "in") == {"large": other}


@pytest.mark.invariant("No key and no link leads out of its target")
def test_a_link_in_the_target_is_not_followed_out_of_it(
    account: Account, bucket: str, tmp_path: Path
) -> None:
    send(store_of(account), bucket, outputs(tmp_path, {"a/b": b"evil", "c": b"c"}))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TransferFailed, match="1 of 2 files failed"):
        fetch(store_of(account), bucket, tmp_path)
    assert list((tmp_path / "elsewhere").iterdir()) == []
