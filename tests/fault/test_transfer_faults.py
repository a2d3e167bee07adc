"""Faults between local paths and OBS: no partial file, nothing outside the target, no silent loss."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

import pytest

from path_mapping.errors import (
    Cancelled,
    Corrupted,
    Forbidden,
    NotFound,
    PathMappingError,
    Refused,
    Rejected,
    SlowDown,
    TransferFailed,
    Unreachable,
)
from path_mapping.stores.access import Access, Credentials
from path_mapping.stores.objects import StoredObject
from path_mapping.stores.obs_store import ObsStore
from path_mapping.stores.responses import error_of_status
from path_mapping.stores.store import Store
from path_mapping.transfer.scheduler import Progress
from tests.obs import MemoryObs, obs_fault
from tests.transfers import PartialStore, content_of, fetch, obs_store, route, send, tree

CONTENT = b"0123456789abcdef" * 20_000
EMPTY_MD5 = "d41d8cd98f00b204e9800998ecf8427e"
MIB = 1 << 20


@pytest.fixture
def store(obs: MemoryObs) -> ObsStore:
    return ObsStore(Access(obs.url, Credentials("AKPLANTED", "SKPLANTED", "TOKENPLANTED")))


def put(store: Store, key: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(content)
    send(store, tmp_path, route("source", key))


def outputs(tmp_path: Path, *names: str) -> Path:
    (tmp_path / "out").mkdir()
    for name in names:
        (tmp_path / "out" / name).write_bytes(CONTENT)
    return tmp_path


class TestUpload:
    """An upload over a bad connection, or of a file that keeps changing."""

    @pytest.mark.parametrize("kind", ["503", "429", "reset", "wrong-etag", "wrong-crc", "bad-digest"])
    def test_a_transient_fault_is_retried(
        self, store: ObsStore, obs: MemoryObs, tmp_path: Path, kind: str
    ) -> None:
        obs.faults.append(obs_fault(kind, "PUT", "/out/a", times=2))
        assert send(store, outputs(tmp_path, "a"), route("out", "out")).files == 1
        assert content_of(store, "out/a") == CONTENT

    @pytest.mark.parametrize(
        ("kind", "error"), [("403", Forbidden), ("503", SlowDown), ("wrong-etag", Corrupted)]
    )
    def test_a_permanent_fault_fails_this_file_only(
        self, store: ObsStore, obs: MemoryObs, tmp_path: Path, kind: str, error: type
    ) -> None:
        obs.faults.append(obs_fault(kind, "PUT", "/out/a"))
        with pytest.raises(TransferFailed, match="1 of 3 files failed") as raised:
            send(store, outputs(tmp_path, "a", "b", "c"), route("out", "out"))
        assert [type(failure.error) for failure in raised.value.failures] == [error]
        assert content_of(store, "out/c") == CONTENT

    @pytest.mark.parametrize("kind", ["403", "404"])
    def test_a_permanent_error_is_not_retried(
        self, store: ObsStore, obs: MemoryObs, tmp_path: Path, kind: str
    ) -> None:
        obs.faults.append(obs_fault(kind, "PUT", "/out/a"))
        with pytest.raises(TransferFailed, match=f"HTTP {kind}"):
            send(store, outputs(tmp_path, "a"), route("out", "out"))
        assert [method for method, path in obs.requests] == ["GET", "PUT"]  # the listing, and one attempt

    def test_a_hang_ends_with_the_timeout(self, obs: MemoryObs, tmp_path: Path) -> None:
        store = obs_store(obs.url, timeout=0.3)
        obs.faults += [
            obs_fault("hang", "PUT", "/out/a", times=1),
            obs_fault("hang", "GET", "/out/a", times=1),
        ]
        send(store, outputs(tmp_path, "a"), route("out", "out"))
        fetch(store, tmp_path, route("in", "out/"))
        assert tree(tmp_path / "in") == {"a": CONTENT}

    def test_changed_file_is_distinguished_from_a_refusal(
        self, store: ObsStore, obs: MemoryObs, tmp_path: Path
    ) -> None:
        """OBS answers BadDigest if the file changed between hashing and sending: the error names the change."""
        outputs(tmp_path, "log")
        obs.faults.append(obs_fault("bad-digest", "PUT", "/out/log"))

        def grow(progress: Progress) -> None:
            with (tmp_path / "out" / "log").open("ab") as file:
                file.write(b"more")

        with pytest.raises(TransferFailed, match="changed during each of 3 uploads"):
            send(store, tmp_path, progress=grow)
        assert len([path for method, path in obs.requests if method == "PUT"]) <= 3

    def test_shrinking_file_is_uploaded_again(self, store: ObsStore, tmp_path: Path) -> None:
        (tmp_path / "log").write_bytes(b"x" * (8 * MIB))

        def shrink(progress: Progress) -> None:
            if progress.bytes_done and (tmp_path / "log").stat().st_size > 5:
                os.truncate(tmp_path / "log", 5)

        send(store, tmp_path, route("log", "log"), progress=shrink)
        assert content_of(store, "log") == b"xxxxx"

    def test_a_failed_multipart_upload_is_aborted(self, obs: MemoryObs, tmp_path: Path) -> None:
        store = obs_store(obs.url, multipart_from=6 * MIB, part=5 * MIB)
        (tmp_path / "large").write_bytes(b"x" * (11 * MIB))
        obs.faults.append(obs_fault("403", "PUT", "partNumber=2"))
        with pytest.raises(TransferFailed, match="HTTP 403"):
            send(store, tmp_path, route("large", "large"))
        assert [path for method, path in obs.requests if method == "DELETE" and "uploadId=" in path]
        assert list(store.unfinished("bucket", "large")) == []
        assert list(store.list("bucket", "large")) == []

    @pytest.mark.parametrize("part", ["uploads", "uploadId="])
    def test_damaged_response_for_a_large_file_does_not_stop_other_files(
        self, obs: MemoryObs, tmp_path: Path, part: str
    ) -> None:
        store = obs_store(obs.url, multipart_from=6 * MIB, part=5 * MIB)
        outputs(tmp_path, "z")
        (tmp_path / "out" / "large").write_bytes(b"x" * (6 * MIB))
        obs.faults.append(obs_fault("empty", "POST", part, times=1))
        send(store, tmp_path, route("out", "out"))
        assert len(content_of(store, "out/large")) == 6 * MIB
        assert content_of(store, "out/z") == CONTENT

    def test_name_that_is_not_utf_8_is_reported_at_once(
        self, store: ObsStore, obs: MemoryObs, tmp_path: Path
    ) -> None:
        outputs(tmp_path, "a")
        Path(os.fsdecode(os.fsencode(tmp_path / "out") + b"/\xff.ckpt")).write_bytes(b"x")
        with pytest.raises(TransferFailed, match="1 of 2 files failed") as raised:
            send(store, tmp_path, route("out", "out"))
        assert str(raised.value).encode("utf-8")  # printable
        assert [method for method, path in obs.requests] == ["GET", "PUT"]

    def test_cancelling_does_not_wait_for_a_checksum(self, store: ObsStore, tmp_path: Path) -> None:
        with (tmp_path / "huge").open("wb") as file:
            file.truncate(16 << 30)
        cancel = threading.Event()
        started = time.monotonic()
        with pytest.raises(Cancelled):
            send(
                store,
                tmp_path,
                route("huge", "huge"),
                cancel=cancel,
                progress=lambda progress: cancel.set(),
            )
        assert time.monotonic() - started < 3


@pytest.mark.parametrize("kind", ["encrypted", "appended"])
def test_etag_of_an_encrypted_object_is_not_used_as_md5(
    store: ObsStore, obs: MemoryObs, tmp_path: Path, kind: str
) -> None:
    """OBS API reference, server-side encryption: the ETag is not the MD5 of the object."""
    obs.faults += [obs_fault(kind, "PUT"), obs_fault(kind, "GET")]
    send(store, outputs(tmp_path, "a"), route("out", "out"))
    fetch(store, tmp_path, route("in", "out/"))
    assert tree(tmp_path / "in") == {"a": CONTENT}


def test_object_deleted_or_forbidden_after_the_listing_is_reported(
    store: ObsStore, obs: MemoryObs, tmp_path: Path
) -> None:
    send(store, outputs(tmp_path, "a", "b", "c"), route("out", "out"))
    obs.faults += [obs_fault("404", "GET", "/out/a"), obs_fault("403", "GET", "/out/b")]
    with pytest.raises(TransferFailed, match="2 of 3 files failed") as raised:
        fetch(store, tmp_path, route("in", "out/"))
    assert ["HTTP 404" in str(raised.value), "HTTP 403" in str(raised.value)] == [True, True]
    assert tree(tmp_path / "in") == {"c": CONTENT}


class Objects(PartialStore):
    """A store with given contents; `before_read` is called first and may raise."""

    def __init__(
        self, contents: dict[str, bytes], before_read: Callable[[int], None] = lambda number: None
    ) -> None:
        self._contents = contents
        self._before_read = before_read
        self.reads = 0

    def list(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        for key in sorted(self._contents):
            if key.startswith(prefix):
                yield StoredObject(key, len(self._contents[key]), None)

    def read(self, bucket: str, key: str) -> Iterator[bytes]:
        self.reads += 1
        self._before_read(self.reads)
        yield self._contents[key]


class TestTarget:
    """The local directory of an input."""

    def test_a_link_created_between_two_attempts_is_noticed(self, tmp_path: Path) -> None:
        (tmp_path / "outside").mkdir()
        (tmp_path / "in").mkdir()

        def swap(number: int) -> None:
            if number == 1:
                for unfinished in (tmp_path / "in" / "d").iterdir():
                    unfinished.unlink()
                (tmp_path / "in" / "d").rmdir()
                (tmp_path / "in" / "d").symlink_to(tmp_path / "outside")
                raise Unreachable("planted")

        with pytest.raises(TransferFailed, match="a link leads to"):
            fetch(Objects({"in/d/a": b"evil"}, swap), tmp_path, route("in", "in/"))
        assert tree(tmp_path / "outside") == {}

    @pytest.mark.invariant("A file is complete or absent, after a kill at any moment")
    def test_a_failed_file_leaves_its_target_unchanged(self, tmp_path: Path) -> None:
        def broken(number: int) -> None:
            raise Refused("planted")

        with pytest.raises(TransferFailed):
            fetch(Objects({"in/d/e/a": b"x"}, broken), tmp_path, route("in", "in/"))
        assert [path.name for path in tmp_path.rglob("*")] == ["in"]

    def test_new_files_and_directories_are_private(self, tmp_path: Path) -> None:
        fetch(Objects({"in/d/e/a": b"x"}), tmp_path, route("new/in", "in/"))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").rglob("*")}
        assert modes == {"in": 0o750, "d": 0o750, "e": 0o750, "a": 0o640}

    def test_an_empty_directory_as_an_input_is_created(self, tmp_path: Path) -> None:
        assert fetch(Objects({"in/": b""}), tmp_path, route("new/in", "in")).files == 0
        assert (tmp_path / "new" / "in").is_dir()


class Endless(Objects):
    """A bucket whose listing never ends."""

    def __init__(self, listed: Callable[[], None]) -> None:
        super().__init__({})
        self._listed = listed

    def list(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        for number in range(10_000_000):
            self._listed()
            yield StoredObject(f"{prefix}{number:09}", 1, None)


def test_cancelling_does_not_wait_for_a_listing(tmp_path: Path) -> None:
    cancel = threading.Event()
    started = time.monotonic()
    with pytest.raises(Cancelled):
        fetch(Endless(cancel.set), tmp_path, cancel=cancel)
    assert time.monotonic() - started < 3


def test_progress_is_monotonic_and_ends_at_the_total(store: ObsStore, obs: MemoryObs, tmp_path: Path) -> None:
    obs.faults.append(obs_fault("cut", "GET", "/out/a", times=3))
    send(store, outputs(tmp_path, "a", "b", "c"), route("out", "out"))
    seen: list[Progress] = []
    fetch(store, tmp_path, route("in", "out/"), progress=seen.append)
    assert [now.bytes_done for now in seen] == sorted(now.bytes_done for now in seen)
    assert seen[-1] == Progress(3, 3, 3 * len(CONTENT), 3 * len(CONTENT))
    assert all(now.bytes_done <= (now.files_done + 1) * len(CONTENT) for now in seen)


@pytest.mark.invariant("No secret in a line, a plan, a page, an error or a message between processes")
@pytest.mark.parametrize("kind", ["403", "404", "503", "reset", "cut", "flip", "empty"])
def test_no_error_shows_a_credential(store: ObsStore, obs: MemoryObs, tmp_path: Path, kind: str) -> None:
    send(store, outputs(tmp_path, "a"), route("out", "out"))
    obs.faults += [obs_fault(kind, "GET"), obs_fault(kind, "PUT")]
    texts = [repr(store)]
    for action in (
        lambda: list(store.list("bucket", "out/")),
        lambda: content_of(store, "out/a"),
        lambda: store.write("bucket", "x", tmp_path / "out" / "a", "0" * 32, lambda size: None),
    ):
        try:
            action()
        except PathMappingError as error:
            texts.append("".join(traceback.format_exception(type(error), error, error.__traceback__)))
            texts.append(repr(error))
    assert len(texts) == 1 + 3 * 2, "each of the three actions has failed"
    assert not any("PLANTED" in text for text in texts)


@pytest.mark.invariant("Retries are in one place, the SDK in one module")
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
def test_failed_listing_is_not_treated_as_empty(
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
    """Store whose object has no MD5, as after a multipart upload; only its size shows the missing part."""

    def list(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        yield StoredObject("in/a", 4, None)

    def read(self, bucket: str, key: str) -> Iterator[bytes]:
        yield b"ev"


def test_short_content_is_refused_even_without_a_checksum(tmp_path: Path) -> None:
    with pytest.raises(TransferFailed, match="2 bytes arrived, expected 4"):
        fetch(Short(), tmp_path)
    assert tree(tmp_path) == {}


def test_links_and_special_files_of_an_output_are_reported(store: ObsStore, tmp_path: Path) -> None:
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
import resource, signal
from pathlib import Path
from path_mapping.mapping.routes import ObsUrl, Route
from path_mapping.stores.access import Access, Credentials
from path_mapping.stores.obs_store import ObsStore
from path_mapping.workers.retry import RetriedStore
from path_mapping.transfer.transfer import download
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # write() fails as on a full disk
store = ObsStore(Access({obs.url!r}, Credentials("AKPLANTED", "SKPLANTED")))
download([Route("in", ObsUrl("bucket", "in/"))], Path({str(tmp_path)!r}), RetriedStore(store))
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
