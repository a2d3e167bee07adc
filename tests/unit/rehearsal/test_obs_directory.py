"""A plain directory served as OBS: its files are objects, and new objects become files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ma_boot.desk.rehearsal.obs_server.buckets import Buckets
from ma_boot.desk.rehearsal.obs_server.server import ObsServer
from path_mapping.errors import NotFound, StoreError
from path_mapping.stores.open_store import open_store
from path_mapping.stores.store import Store
from tests.conftest import CREDENTIALS, KNOWN


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with a bucket."""
    bucket = tmp_path / "obs" / "bucket"
    (bucket / "data" / "empty").mkdir(parents=True)
    (bucket / "data" / "x").write_bytes(b"input")
    (bucket / "data" / ".y.0123456789ab.ma_part").write_bytes(b"half")
    return tmp_path / "obs"


@pytest.fixture
def served(root: Path, tmp_path: Path) -> Iterator[Store]:
    """A client of the server."""
    with ObsServer(Buckets(root), tmp_path / "parts", KNOWN) as server:
        yield open_store({"OBS_ENDPOINT": server.url, **CREDENTIALS}, None)


def write(store: Store, tmp_path: Path, key: str, content: bytes) -> None:
    source = tmp_path / "source"
    source.write_bytes(content)
    store.write("bucket", key, source, hashlib.md5(content).hexdigest(), lambda sent: None)


def keys(store: Store, bucket: str, prefix: str = "") -> set[str]:
    return {stored.key for stored in store.list(bucket, prefix)}


def test_files_that_were_there_are_objects(served: Store) -> None:
    listed = {stored.key: stored for stored in served.list("bucket", "")}
    assert set(listed) == {"data/x", "data/empty/"}
    assert listed["data/x"].md5 == hashlib.md5(b"input").hexdigest()
    assert b"".join(served.read("bucket", "data/x")) == b"input"


def test_objects_become_files(served: Store, root: Path, tmp_path: Path) -> None:
    write(served, tmp_path, "out/deep/a", b"1")
    write(served, tmp_path, "out/deep/a", b"2")
    write(served, tmp_path, "data/x", b"new")
    assert (root / "bucket" / "out" / "deep" / "a").read_bytes() == b"2"
    assert (root / "bucket" / "data" / "x").read_bytes() == b"new"
    assert b"".join(served.read("bucket", "data/x")) == b"new"
    assert not list(root.glob("bucket/.*"))


def test_a_large_object_comes_in_parts(served: Store, root: Path, tmp_path: Path) -> None:
    content = b"0123456789abcdef" * (3 << 20)
    write(served, tmp_path, "out/large", content)
    assert hashlib.md5((root / "bucket/out/large").read_bytes()).digest() == hashlib.md5(content).digest()


def test_a_file_that_has_gone_is_no_object(served: Store, root: Path) -> None:
    (root / "bucket" / "data" / "x").unlink()
    with pytest.raises(NotFound):
        list(served.read("bucket", "data/x"))


def test_files_that_others_write_meanwhile_are_objects(served: Store, root: Path, tmp_path: Path) -> None:
    assert b"".join(served.read("bucket", "data/x")) == b"input"
    write(served, tmp_path, "data/mine", b"mine")
    (root / "bucket" / "data" / "x").write_bytes(b"changed")
    (root / "bucket" / "data" / "mine").write_bytes(b"theirs")
    (root / "bucket" / "data" / "new").write_bytes(b"new")
    (root / "bucket" / "data" / "empty").rmdir()
    (root / "later").mkdir()
    (root / "later" / "y").write_bytes(b"there")
    listed = {stored.key: (stored.size, stored.md5) for stored in served.list("bucket", "data/")}
    expected = {"data/x": b"changed", "data/mine": b"theirs", "data/new": b"new"}
    assert listed == {key: (len(text), hashlib.md5(text).hexdigest()) for key, text in expected.items()}
    assert {key: b"".join(served.read("bucket", key)) for key in expected} == expected
    assert keys(served, "later") == {"y"}
    (root / "later" / "y").unlink()
    (root / "later").rmdir()
    with pytest.raises(NotFound):
        list(served.list("later", ""))


def test_a_directory_that_was_put_stays_an_object_and_one_that_became_empty_is_none(
    served: Store, root: Path, tmp_path: Path
) -> None:
    write(served, tmp_path, "put/", b"")
    write(served, tmp_path, "put/x", b"x")
    write(served, tmp_path, "made/by/x", b"x")
    assert keys(served, "bucket", "put") == {"put/", "put/x"}
    for key in ("put/x", "made/by/x"):
        served.delete("bucket", key)
    assert keys(served, "bucket") == {"data/empty/", "data/x", "put/"}
    assert not (root / "bucket" / "made").exists()


def test_only_files_are_objects(served: Store, root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (root / "bucket" / "out").symlink_to(tmp_path)
    os.mkfifo(root / "bucket" / "pipe")
    assert keys(served, "bucket") == {"data/x", "data/empty/"}
    assert keys(served, "bucket", "out/") == set()
    for key in ("out/secret", "pipe", "data", "data/x/y", "../../secret"):
        with pytest.raises(StoreError):
            list(served.read("bucket", key))


@pytest.mark.parametrize("key", ["../escaped", "a//b", "data/x/below", "data", "link/file"])
def test_a_key_that_no_file_can_have_is_refused(served: Store, root: Path, tmp_path: Path, key: str) -> None:
    (root / "bucket" / "link").symlink_to(tmp_path)
    with pytest.raises(StoreError):
        write(served, tmp_path, key, b"x")
    assert not (root / "escaped").exists()
    assert not (tmp_path / "file").exists()
    assert not list(root.glob("bucket/.*"))
    assert (root / "bucket" / "data" / "x").read_bytes() == b"input"
