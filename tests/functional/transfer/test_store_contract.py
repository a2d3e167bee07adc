"""What both stores refuse, and certificates that they accept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, Iterator

import pytest

from path_mapping.errors import CredentialsMissing, NotFound, Refused, Unreachable
from path_mapping.stores import Store, open_store
from path_mapping.wire import error_of_status
from tests.conftest import CREDENTIALS
from tests.functional.transfer.test_stores import put
from tests.transfers import obs_store


def keys(store: Store, prefix: str = "") -> Iterator[str]:
    return (found.key for found in store.list("bucket", prefix))


@pytest.mark.parametrize("content", [b"", b"{}", bytes(range(256)) * 9000])
def test_bytes_are_written_without_a_file(store: Store, tmp_path: Path, content: bytes) -> None:
    put(store, "doc", b"earlier", tmp_path)
    store.write_bytes("bucket", "doc", content)
    assert b"".join(store.read("bucket", "doc")) == content
    store.write_bytes("bucket", "deeper/doc", content)
    assert b"".join(store.read("bucket", "deeper/doc")) == content


def test_writing_again_replaces_an_object(store: Store, tmp_path: Path) -> None:
    put(store, "a", b"one", tmp_path)
    put(store, "a", b"two!", tmp_path)
    assert b"".join(store.read("bucket", "a")) == b"two!"
    assert [found.size for found in store.list("bucket", "a")] == [4]


def test_an_unknown_prefix_lists_nothing(store: Store, tmp_path: Path) -> None:
    put(store, "a/b", b"x", tmp_path)
    assert list(keys(store, "b/")) == []
    assert list(keys(store, "a/b/c")) == []


def test_an_iterator_that_is_closed_early_ends_the_request(store: Store, tmp_path: Path) -> None:
    put(store, "a", b"x" * (3 << 20), tmp_path)
    for _ in range(20):
        pieces = store.read("bucket", "a")
        assert next(iter(pieces))
        pieces.close()  # type: ignore[attr-defined]  # a generator in both stores
    assert list(keys(store)) == ["a"]


class TestDirectory:
    """Keys that only a directory has to refuse."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        (tmp_path / "root" / "bucket").mkdir(parents=True)
        return tmp_path / "root"

    @pytest.mark.parametrize("key", ["../esc", "a/../../esc", "/etc/esc", "a//b", "a/./b", "a\0b"])
    def test_a_key_stays_in_its_bucket(self, root: Path, tmp_path: Path, key: str) -> None:
        store = open_store({}, root)
        with pytest.raises(Refused):
            put(store, key, b"evil", tmp_path)
        with pytest.raises(Refused):
            list(store.read("bucket", key))
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / "source"]

    def test_a_listing_stays_in_its_bucket(self, root: Path) -> None:
        (root / "other").mkdir()
        (root / "other" / "secret").write_bytes(b"x")
        with pytest.raises(Refused):
            list(keys(open_store({}, root), "../other/"))

    def test_a_link_in_the_bucket_is_not_followed_out_of_it(self, root: Path, tmp_path: Path) -> None:
        (tmp_path / "outside").mkdir()
        (root / "bucket" / "link").symlink_to(tmp_path / "outside")
        with pytest.raises(Refused):
            put(open_store({}, root), "link/a", b"evil", tmp_path)
        assert list((tmp_path / "outside").iterdir()) == []

    def test_only_files_are_objects(self, root: Path) -> None:
        os.mkfifo(root / "bucket" / "pipe")  # reading it would block
        (root / "bucket" / "dangling").symlink_to("nothing")
        (root / "bucket" / "a").write_bytes(b"x")
        assert list(keys(open_store({}, root))) == ["a"]

    def test_a_missing_bucket_is_not_found(self, root: Path) -> None:
        with pytest.raises(NotFound):
            list(open_store({}, root).list("other", ""))


def test_a_valid_certificate_is_accepted(secure: Callable[[str], str], tmp_path: Path) -> None:
    environ = {"OBS_ENDPOINT": secure("localhost"), "SSL_CERT_FILE": str(tmp_path / "ca.pem"), **CREDENTIALS}
    with pytest.raises(NotFound):  # the server's own answer: the connection works
        list(open_store(environ, None).read("bucket", "a"))


@pytest.mark.parametrize("content", [None, b"no certificate"])
def test_an_invalid_ca_bundle_is_named(tmp_path: Path, content: object) -> None:
    bundle = tmp_path / "bundle.pem"
    if isinstance(content, bytes):
        bundle.write_bytes(content)
    with pytest.raises(CredentialsMissing, match=r"SSL_CERT_FILE.*bundle\.pem"):
        obs_store("https://obs.region.example.com", bundle=str(bundle))


@pytest.mark.parametrize("code", ["BadDigest", "RequestTimeout", "IncompleteBody"])
def test_a_400_caused_by_the_connection_is_retried(code: str) -> None:
    assert isinstance(error_of_status("writing", 400, code), Unreachable)
