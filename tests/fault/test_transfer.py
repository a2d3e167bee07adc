"""Faults between local paths and OBS: no partial file, nothing outside the target, no silent loss."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Iterator

import pytest

from path_mapping.errors import (
    Cancelled,
    Corrupted,
    NotFound,
    Refused,
    Rejected,
    SlowDown,
    TransferFailed,
    Unreachable,
)
from path_mapping.stores import Store, StoredObject
from path_mapping.stores.obs_store import ObsStore
from path_mapping.stores.responses import error_of_status
from path_mapping.transfer import Progress
from tests.obs import MemoryObs, obs_fault
from tests.transfers import PartialStore, fetch, obs_store, route, send, tree

EMPTY_MD5 = "d41d8cd98f00b204e9800998ecf8427e"
CONTENT = b"0123456789abcdef" * 20_000


@pytest.fixture
def store(obs: MemoryObs) -> ObsStore:
    return obs_store(obs.url)


def put(store: Store, key: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(content)
    send(store, tmp_path, route("source", key))


@pytest.mark.parametrize("kind", ["503", "reset", "cut", "flip"])
def test_a_permanent_fault_leaves_the_earlier_file_intact(
    store: ObsStore, obs: MemoryObs, tmp_path: Path, kind: str
) -> None:
    put(store, "in/a", CONTENT, tmp_path)
    put(store, "in/b", b"good", tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"earlier")
    obs.faults.append(obs_fault(kind, "GET", "/bucket/in/a"))
    with pytest.raises(TransferFailed) as raised:
        fetch(store, tmp_path)
    assert [failure.source for failure in raised.value.failures] == ["obs://bucket/in/a"]
    assert isinstance(raised.value.failures[0].error, Unreachable)
    assert tree(tmp_path / "in") == {"a": b"earlier", "b": b"good"}
    requests = [path for method, path in obs.requests if method == "GET" and path.startswith("/bucket/in/a")]
    assert len(requests) == 5, "our attempts are not multiplied by those of the SDK"


@pytest.mark.parametrize(("kind", "error"), [("403", Refused), ("503", Unreachable), ("empty", Unreachable)])
def test_a_failed_listing_is_not_an_empty_one(
    store: ObsStore, obs: MemoryObs, tmp_path: Path, kind: str, error: type
) -> None:
    obs.faults.append(obs_fault(kind, "GET", "/bucket"))
    with pytest.raises(error):
        fetch(store, tmp_path)


def test_a_listing_without_a_next_marker_continues_after_the_last_key(
    store: ObsStore, obs: MemoryObs, tmp_path: Path
) -> None:
    for number in range(1001):
        store.write("bucket", f"in/{number:04}", Path(os.devnull), EMPTY_MD5, lambda size: None)
    obs.faults.append(obs_fault("no-marker", "GET", "/bucket?"))
    assert len(list(store.list("bucket", "in/"))) == 1001


def test_a_missing_server_is_unreachable(tmp_path: Path) -> None:
    store = obs_store("http://127.0.0.1:9")
    with pytest.raises(Unreachable, match="refused"):
        list(store.list("bucket", ""))


def test_cancelling_ends_the_wait_for_a_retry(store: ObsStore, obs: MemoryObs, tmp_path: Path) -> None:
    put(store, "in/a", CONTENT, tmp_path)
    obs.faults.append(obs_fault("503", "GET", "/bucket/in/a"))
    cancel = threading.Event()
    threading.Timer(0.3, cancel.set).start()
    with pytest.raises(Cancelled):
        fetch(store, tmp_path, cancel=cancel)
    assert len(obs.requests) < 8  # among them an upload with its listing, and the listing of the input
    assert tree(tmp_path / "in") == {}


class Short(PartialStore):
    """Its object has no MD5, as one of several parts; only its size shows that something is missing."""

    def list(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        yield StoredObject("in/a", 4, None)

    def read(self, bucket: str, key: str) -> Iterator[bytes]:
        yield b"ev"


def test_short_content_is_refused_even_without_a_checksum(tmp_path: Path) -> None:
    with pytest.raises(TransferFailed, match="2 bytes arrived, expected 4"):
        fetch(Short(), tmp_path)
    assert tree(tmp_path) == {}


def test_links_and_special_files_of_an_output(store: ObsStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "epoch_1").mkdir(parents=True)
    (out / "epoch_1" / "net").write_bytes(b"net")
    (out / "latest").symlink_to("epoch_1")
    (out / "latest.net").symlink_to("epoch_1/net")
    (out / ".net.0123456789ab.ma_part").write_bytes(b"half")
    os.mkfifo(out / "pipe")
    (out / "secrets").symlink_to("/etc")
    with pytest.raises(TransferFailed, match="a link out of the output, to /etc") as raised:
        send(store, tmp_path)
    assert len(raised.value.failures) == 1
    assert [stored.key for stored in store.list("bucket", "out/")] == ["out/epoch_1/net", "out/latest.net"]


def test_a_file_that_keeps_changing_is_reported(store: ObsStore, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(CONTENT)

    def grow(progress: Progress) -> None:
        with (tmp_path / "log").open("ab") as file:
            file.write(b"more")

    with pytest.raises(TransferFailed, match="changed during each of 3 uploads"):
        send(store, tmp_path, route("log", "log"), progress=grow)


def test_a_full_disk_leaves_no_partial_file(obs: MemoryObs, store: ObsStore, tmp_path: Path) -> None:
    put(store, "in/a", CONTENT, tmp_path)
    program = f"""
import resource, signal, threading
from pathlib import Path
from path_mapping.mapping import ObsUrl, Route
from path_mapping.stores import Access, Credentials
from path_mapping.stores.obs_store import ObsStore
from path_mapping.transfer import download
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # write() fails as on a full disk
store = ObsStore(Access({obs.url!r}, Credentials("AKPLANTED", "SKPLANTED")))
download([Route("in", ObsUrl("bucket", "in/"))], Path({str(tmp_path)!r}), store,
         cancel=threading.Event(), progress=lambda p: None)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "TransferFailed" in done.stderr
    assert "File too large" in done.stderr
    assert tree(tmp_path / "in") == {}
    assert "PLANTED" not in done.stderr.replace("store = ", "")


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        *((status, "Code", Rejected) for status in (301, 400, 405, 409, 416)),
        *((status, "Code", Refused) for status in (401, 403)),
        (404, "Code", NotFound),
        *((status, "Code", Unreachable) for status in (408, 500)),
        *((status, "Code", SlowDown) for status in (429, 503)),
        *((400, code, Unreachable) for code in ("RequestTimeout", "IncompleteBody")),
        (400, "BadDigest", Corrupted),
    ],
)
def test_each_status_maps_to_an_error(status: int, code: str, error: type) -> None:
    assert type(error_of_status("reading", status, code)) is error
