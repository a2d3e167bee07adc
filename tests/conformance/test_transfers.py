"""Inputs and outputs, against the embedded server and against radosgw."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path
from typing import Any, Dict

import pytest

from path_mapping.errors import (
    Cancelled,
    MissingInputs,
    NotFound,
    Refused,
    Replaced,
    TransferFailed,
    Unreachable,
    UnsafeTarget,
)
from path_mapping.stores import Access, Credentials
from path_mapping.stores.obs_store import ObsStore
from path_mapping.transfer import Progress, Transferred
from tests import transfers
from tests.conformance.clients import Account, Client, Sdk
from tests.conformance.conftest import RADOSGW
from tests.obs import Fault, FaultProxy, operation
from tests.transfers import route, tree, write

MIB = 1 << 20
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

pytestmark = pytest.mark.parametrize(
    "pair", [("embedded", "v2"), pytest.param(("radosgw", "v2"), marks=RADOSGW)]
)


def store_of(account: Account, secret: str = "", timeout: float = 20) -> ObsStore:
    """A store with parts that are small enough for a test."""
    return ObsStore(
        Access(
            account.url,
            Credentials(account.access_key, secret or account.secret_key),
            multipart_from=12 * MIB,
            part=5 * MIB,
            timeout=timeout,
        )
    )


@pytest.fixture
def bucket(client: Client) -> str:
    return client.bucket


def fetch(store: ObsStore, bucket: str, base: Path, key: str = "data/") -> Transferred:
    return transfers.fetch(store, base, route("in", key, bucket))


def send(store: ObsStore, bucket: str, base: Path) -> Transferred:
    return transfers.send(store, base, route("out", "data/", bucket))


def outputs(base: Path, files: Dict[str, bytes]) -> Path:
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
        fetch(store_of(account, secret="wrong"), bucket, tmp_path)
    with pytest.raises(TransferFailed, match="HTTP 403"):
        send(store_of(account, secret="wrong"), bucket, outputs(tmp_path, {"a": b"a"}))


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


@pytest.mark.parametrize(
    "key", ["data/../esc", "data//abs", "data/a//b", "data/./x", "data/" + "x" * 256, "data/good/x"]
)
def test_an_unsafe_key_stops_the_whole_transfer(
    account: Account, bucket: str, tmp_path: Path, key: str
) -> None:
    client = Sdk(account, bucket, "v2")
    assert client.put("data/good", b"x").status == 200
    assert client.put(key, b"evil").status == 200
    with pytest.raises(UnsafeTarget):
        fetch(store_of(account), bucket, tmp_path)
    assert tree(tmp_path) == {}


def test_one_of_three_uploads_fails_and_the_others_arrive(
    account: Account, bucket: str, tmp_path: Path
) -> None:
    long = "/".join(["x" * 250] * 4) + "/" + "y" * 60  # with `data/` a key of more than 1,024 bytes
    outputs(tmp_path, {"a": b"a", "b": b"b", long: b"c"})
    with pytest.raises(TransferFailed, match="1 of 3 files failed"):
        send(store_of(account), bucket, tmp_path)
    fetch(store_of(account), bucket, tmp_path)
    assert tree(tmp_path / "in") == {"a": b"a", "b": b"b"}


def behind(proxy: FaultProxy, account: Account) -> Account:
    return Account(proxy.url, account.access_key, account.secret_key)


@pytest.mark.parametrize(
    "how",
    [
        {"times": 2, "status": 503},
        {"times": 2, "status": 429},
        {"flip_answer": 300_000},
        {"cut_answer": 300_000},
        {"cut_answer": 300_000, "reset": True},
        {"cut_answer": 300_000, "stall": True},
    ],
    ids=["503", "429", "flip", "cut", "reset", "stall"],
)
def test_a_broken_connection_is_retried(
    proxy: FaultProxy, account: Account, bucket: str, tmp_path: Path, how: Dict[str, Any]
) -> None:
    """In the middle of a file's body, over an earlier version of the file."""
    content = LARGE[: 3 * MIB]
    send(store_of(account), bucket, outputs(tmp_path, {"a": content}))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"earlier")
    fault = Fault(operation("GetObject"), **how)
    proxy.faults.append(fault)
    assert fetch(store_of(behind(proxy, account), timeout=1), bucket, tmp_path).files == 1
    assert tree(tmp_path / "in") == {"a": content}
    assert fault.times == 0


def test_a_connection_that_always_breaks_leaves_the_earlier_file(
    proxy: FaultProxy, account: Account, bucket: str, tmp_path: Path
) -> None:
    send(store_of(account), bucket, outputs(tmp_path, {"a": LARGE[: 3 * MIB]}))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"earlier")
    proxy.faults.append(Fault(operation("GetObject"), times=100, cut_answer=300_000))
    with pytest.raises(TransferFailed) as raised:
        fetch(store_of(behind(proxy, account)), bucket, tmp_path)
    assert isinstance(raised.value.failures[0].error, Unreachable)
    assert tree(tmp_path / "in") == {"a": b"earlier"}


def test_an_interrupted_multipart_upload_is_resumed(account: Account, bucket: str, tmp_path: Path) -> None:
    store = store_of(account)
    outputs(tmp_path, {"large": LARGE})
    cancel = threading.Event()

    def stop(progress: Progress) -> None:
        if progress.bytes_done > 12 * MIB:
            cancel.set()

    with pytest.raises(Cancelled):
        transfers.send(store, tmp_path, route("out", "data/", bucket), cancel=cancel, progress=stop)
    send(store_of(account), bucket, tmp_path)
    fetch(store_of(account), bucket, tmp_path)
    assert tree(tmp_path / "in") == {"large": LARGE}
    assert Sdk(account, bucket, "v2").uploads() == []


def test_an_object_replaced_during_its_download_is_never_mixed(
    account: Account, bucket: str, tmp_path: Path
) -> None:
    store, other = store_of(account), LARGE[::-1]
    send(store, bucket, outputs(tmp_path, {"large": LARGE}))
    client, replaced = Sdk(account, bucket, "v2"), threading.Event()

    def replace(progress: Progress) -> None:
        if progress.bytes_done and not replaced.is_set():
            replaced.set()
            assert client.put("data/large", other).status == 200

    with pytest.raises(TransferFailed) as raised:
        transfers.fetch(store, tmp_path, route("in", "data/", bucket), progress=replace)
    assert isinstance(raised.value.failures[0].error, Replaced)
    fetch(store, bucket, tmp_path)
    assert tree(tmp_path / "in") == {"large": other}


def test_a_link_in_the_target_is_not_followed_out_of_it(
    account: Account, bucket: str, tmp_path: Path
) -> None:
    send(store_of(account), bucket, outputs(tmp_path, {"a/b": b"evil", "c": b"c"}))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "in").mkdir()
    os.symlink(tmp_path / "elsewhere", tmp_path / "in" / "a")
    with pytest.raises(TransferFailed, match="1 of 2 files failed"):
        fetch(store_of(account), bucket, tmp_path)
    assert list((tmp_path / "elsewhere").iterdir()) == []
