"""Second runs transfer no file twice, after any end of the first; unusual trees and disks."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest

from path_mapping.errors import TransferFailed
from path_mapping.localfs.source_file import chunks, md5_of
from path_mapping.mapping.routes import ObsUrl, Route
from path_mapping.mapping.selection import Shard
from path_mapping.planning.prepare import UploadChoice
from path_mapping.planning.record import is_record, record_path
from path_mapping.stores.objects import StoredObject
from path_mapping.stores.open_store import open_store
from path_mapping.stores.store import Store
from path_mapping.transfer.transfer import Transferred
from path_mapping.workers.retry import RetriedStore
from tests import transfers
from tests.obs import MemoryObs, obs_fault
from tests.transfers import PartialStore, obs_store, route, tree, write

MIB = 1 << 20


@pytest.fixture
def at_obs(obs: MemoryObs) -> Store:
    return obs_store(obs.url)


@pytest.fixture(params=["directory", "obs"])
def store(request: pytest.FixtureRequest, tmp_path: Path, at_obs: Store) -> Store:
    return open_store({}, tmp_path / "root") if request.param == "directory" else at_obs


def fetch(store: Store, base: Path, part: Shard = Shard(), **options: Any) -> Transferred:  # noqa: B008
    return transfers.fetch(store, base, route("in", "data/", **options), part=part)


def send(store: Store, base: Path, choice: UploadChoice = UploadChoice(), **options: Any) -> Transferred:  # noqa: B008
    return transfers.send(store, base, route("out", "data/", **options), choice=choice)


FILES = {"out/a": b"a" * 1000, "out/b-c": b"bc", "out/b/c": b"c", "out/b.d": b"", "out/é/ü": b"x"}


def test_unchanged_tree_costs_one_listing(obs: MemoryObs, at_obs: Store, tmp_path: Path) -> None:
    write(tmp_path, FILES)
    assert send(at_obs, tmp_path).files == 5
    assert fetch(at_obs, tmp_path).files == 5
    for again in (send, fetch, send, fetch):
        obs.seen.clear()
        done = again(at_obs, tmp_path)
        assert (done.files, done.skipped) == (0, 5)
        assert [(method, path.partition("?")[0]) for method, path in obs.requests] == [("GET", "/bucket")]


def test_a_second_run_reads_no_content(store: Store, tmp_path: Path) -> None:
    write(tmp_path, FILES)
    send(store, tmp_path)
    fetch(store, tmp_path)
    for name in ("in/a", "out/a"):
        os.chmod(tmp_path / name, 0)
        status = os.stat(tmp_path / name)
        (tmp_path / name).write_bytes(b"z" * 1000)  # damage that neither size nor time reveals
        os.utime(tmp_path / name, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert fetch(store, tmp_path).files == 0
    assert fetch(store, tmp_path, checksum=True).files == 1
    assert tree(tmp_path / "in")["a"] == FILES["out/a"]
    assert send(store, tmp_path, checksum=True).files == 1


def test_files_changed_on_either_side_are_transferred_again(store: Store, tmp_path: Path) -> None:
    write(tmp_path, FILES)
    send(store, tmp_path)
    fetch(store, tmp_path)
    write(tmp_path, {"in/a": b"A" * 1000, "out/b/c": b"C", "out/new": b"n"})
    assert send(store, tmp_path).files == 2
    assert fetch(store, tmp_path).files == 3
    assert tree(tmp_path / "in") == tree(tmp_path / "out")


@pytest.mark.invariant("Data on the disk is verified; the record only saves work")
@pytest.mark.parametrize("damage", [b"", b"no database at all" * 300, None])
def test_losing_the_record_costs_no_transfer(store: Store, tmp_path: Path, damage: bytes | None) -> None:
    write(tmp_path, FILES)
    send(store, tmp_path)
    fetch(store, tmp_path)
    for name in ("in", "out"):
        record = record_path(tmp_path / name)
        assert stat.S_IMODE(record.stat().st_mode) == 0o640
        record.unlink() if damage is None else record.write_bytes(damage)
    for _ in range(2):
        assert (fetch(store, tmp_path).files, send(store, tmp_path).files) == (0, 0)
    assert not list(tmp_path.rglob("*.ma_sync-journal"))


def test_an_unwritable_record_does_not_stop_a_transfer(store: Store, tmp_path: Path) -> None:
    write(tmp_path, FILES)
    record_path(tmp_path / "out").mkdir()
    assert send(store, tmp_path).files == 5
    assert send(store, tmp_path).files == 0


def test_files_of_a_failed_run_are_not_transferred_again(obs: MemoryObs, tmp_path: Path) -> None:
    store = obs_store(obs.url, multipart_from=6 * MIB, part=5 * MIB)
    write(tmp_path, {"out/a": b"a" * (7 * MIB), "out/b": b"b", "out/c": b"c"})
    obs.faults.append(obs_fault("403", "PUT", "/data/c"))
    with pytest.raises(TransferFailed):
        send(store, tmp_path)
    obs.faults.clear()
    assert send(store, tmp_path).files == 1
    obs.faults.append(obs_fault("403", "GET", "/bucket/data/c"))
    with pytest.raises(TransferFailed):
        fetch(store, tmp_path)
    obs.faults.clear()
    assert fetch(store, tmp_path).files == 1
    assert tree(tmp_path / "in") == tree(tmp_path / "out")


def test_an_interrupted_listing_continues_after_its_last_key(
    obs: MemoryObs, at_obs: Store, tmp_path: Path
) -> None:
    for number in range(1003):
        at_obs.write("bucket", f"data/{number:04}", Path(os.devnull), md5_of([]), lambda size: None)
    obs.faults.append(obs_fault("503", "GET", "marker=", times=2))
    keys = [stored.key for stored in RetriedStore(at_obs).listing("bucket", "data/")]
    assert keys == [f"data/{number:04}" for number in range(1003)]


def test_all_files_are_uploaded_without_a_listing_of_the_target(
    obs: MemoryObs, at_obs: Store, tmp_path: Path
) -> None:
    write(tmp_path, FILES)
    obs.faults.append(obs_fault("403", "GET", "/bucket?"))
    done = send(at_obs, tmp_path)
    assert done.files == 5
    assert "obs://bucket/data/ cannot be listed, so all files are uploaded" in done.notices[0]


def test_each_node_downloads_its_shard(store: Store, tmp_path: Path) -> None:
    write(tmp_path, FILES)
    send(store, tmp_path)
    for index in range(3):
        fetch(store, tmp_path / str(index), Shard(index, 3), shard=True)
    parts = [tree(tmp_path / str(index) / "in") for index in range(3)]
    assert {name: content for part in parts for name, content in part.items()} == tree(tmp_path / "out")
    assert sum(map(len, parts)) == 5
    assert all(parts)


def test_patterns_apply_in_both_directions(store: Store, tmp_path: Path) -> None:
    write(tmp_path, FILES)
    send(store, tmp_path, exclude=("b/", "*.d"))
    fetch(store, tmp_path, include=("*c", "a"))
    assert sorted(tree(tmp_path / "in")) == ["a", "b-c"]


def test_empty_directories_survive_a_round_trip(store: Store, tmp_path: Path) -> None:
    (tmp_path / "out" / "deep" / "empty").mkdir(parents=True)
    write(tmp_path, {"out/full/a": b""})
    for _ in range(2):
        send(store, tmp_path)
        fetch(store, tmp_path)
    made = tmp_path / "in" / "deep" / "empty"
    assert made.is_dir()
    assert stat.S_IMODE(made.stat().st_mode) == 0o750
    assert stat.S_IMODE((tmp_path / "in" / "full" / "a").stat().st_mode) == 0o640


def test_objects_deleted_in_obs_are_deleted_here_with_delete(store: Store, tmp_path: Path) -> None:
    write(tmp_path, FILES)
    send(store, tmp_path)
    fetch(store, tmp_path)
    write(tmp_path, {"in/own": b"not from OBS"})
    bucket = ObjectsLess(store, "data/a", "data/b/c")
    fetch(bucket, tmp_path)
    assert len(tree(tmp_path / "in")) == 6
    fetch(bucket, tmp_path, delete=True)
    assert sorted(tree(tmp_path / "in")) == ["b-c", "b.d", "own", "é/ü"]


def test_files_deleted_here_are_deleted_in_obs_with_delete(store: Store, tmp_path: Path) -> None:
    write(tmp_path, FILES)
    send(store, tmp_path)
    store.write("bucket", "data/other", tmp_path / "out" / "b-c", md5_of([b"bc"]), lambda size: None)
    (tmp_path / "out" / "a").unlink()
    (tmp_path / "out" / "b" / "c").unlink()
    (tmp_path / "out" / "b").rmdir()
    for delete, names in ((False, 6), (True, 4), (True, 4)):
        send(store, tmp_path, delete=delete)
        assert len(list(store.list("bucket", "data/"))) == names
    assert [stored.key for stored in store.list("bucket", "data/o")] == ["data/other"]


def test_failed_run_deletes_no_file(obs: MemoryObs, at_obs: Store, tmp_path: Path) -> None:
    write(tmp_path, FILES)
    send(at_obs, tmp_path)
    (tmp_path / "out" / "a").unlink()
    write(tmp_path, {"out/new": b"n"})
    obs.faults.append(obs_fault("403", "PUT", "/data/new"))
    with pytest.raises(TransferFailed):
        send(at_obs, tmp_path, delete=True)
    assert "data/a" in [stored.key for stored in at_obs.list("bucket", "data/")]


class ObjectsLess(PartialStore):
    """A store without some of its objects."""

    def __init__(self, store: Store, *gone: str) -> None:
        self._gone = gone
        self._store = store

    def list(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        return (stored for stored in self._store.list(bucket, prefix) if stored.key not in self._gone)

    def read(self, bucket: str, key: str) -> Iterator[bytes]:
        return self._store.read(bucket, key)

    def write(self, bucket: str, key: str, source: Path, md5: str, sent: Callable[[int], None]) -> str:
        return self._store.write(bucket, key, source, md5, sent)


def test_the_newest_files_go_first_when_time_is_short(store: Store, tmp_path: Path) -> None:
    write(tmp_path, {"out/1-old.log": b"x", "out/2-weights": b"x" * 1000, "out/3-meta": b"x" * 10})
    os.utime(tmp_path / "out" / "1-old.log", (1, 1))
    order: list[str] = []

    class Watched(ObjectsLess):
        def write(self, bucket: str, key: str, source: Path, md5: str, sent: Callable[[int], None]) -> str:
            order.append(key)
            return super().write(bucket, key, source, md5, sent)

    send(Watched(store), tmp_path, UploadChoice(hurry=True))
    assert order == ["data/3-meta", "data/2-weights", "data/1-old.log"]


def test_record_replaces_a_missing_listing(obs: MemoryObs, at_obs: Store, tmp_path: Path) -> None:
    write(tmp_path, FILES)
    for files in (5, 0):
        obs.seen.clear()
        assert send(at_obs, tmp_path, UploadChoice(listed=False)).files == files
        assert [method for method, path in obs.requests] == ["PUT"] * files


def test_a_single_file_has_its_record_beside_it(store: Store, tmp_path: Path) -> None:
    write(tmp_path, {"f.txt": b"x"})
    routes = [Route("f.txt", ObsUrl("bucket", "dir/"))]
    back = [Route("g.txt", ObsUrl("bucket", "dir/f.txt"))]
    counts: list[tuple[int, int]] = []
    for _ in range(2):
        sent = transfers.send(store, tmp_path, *routes)
        got = transfers.fetch(store, tmp_path, *back)
        counts.append((sent.files, got.files))
    assert counts == [(1, 1), (0, 0)]
    assert b"".join(chunks(tmp_path / "g.txt")) == b"x"
    assert sorted(path.name for path in tmp_path.iterdir() if is_record(path.name)) == [
        ".f.txt.ma_sync",
        ".g.txt.ma_sync",
    ]
