"""One contract for all stores: a directory, OBS with a real server, and a directory that is served as OBS."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from path_mapping.errors import CredentialsMissing, NotFound, Refused
from path_mapping.stores.open_store import open_store
from path_mapping.stores.store import Store
from tests.conftest import CREDENTIALS
from tests.obs import MemoryObs
from tests.transfers import content_of, obs_store, route, send

MIB = 1 << 20
CONTENT = os.urandom(MIB) * 7 + b"the end"
PARTS = """
import sys
from pathlib import Path
from path_mapping.transfer.transfer import upload_file
from tests.transfers import obs_store
store = obs_store(sys.argv[1], multipart_from=6 << 20, part=5 << 20)
upload_file(store, Path(sys.argv[2]), "bucket", "large")
print(store.find("bucket", "large").size, "obs" in sys.modules)
"""


def put(store: Store, key: str, content: bytes, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(content)
    store.write("bucket", key, source, hashlib.md5(content).hexdigest(), lambda size: None)


def keys(store: Store, prefix: str = "") -> list[str]:
    return [stored.key for stored in store.list("bucket", prefix)]


ODD_KEYS = ["with space", "plus+percent%41", "ünï/中文", "a&b=c?d#e", "quote'\""]


def test_the_life_of_objects(store: Store, tmp_path: Path) -> None:
    contents = dict(zip(ODD_KEYS, (b"", b"x", b"\0\xff" * 700_000, b"odd", b"{}")))
    for key, content in contents.items():
        put(store, key, b"earlier", tmp_path)
        put(store, key, content, tmp_path)
        store.write_bytes("bucket", f"deeper/{key}", content)
    assert keys(store) == sorted([*ODD_KEYS, *(f"deeper/{key}" for key in ODD_KEYS)])
    for key, content in contents.items():
        assert (
            b"".join(store.read("bucket", key)) == b"".join(store.read("bucket", f"deeper/{key}")) == content
        )


def test_a_listing_has_keys_sizes_and_md5s_in_order(store: Store, tmp_path: Path) -> None:
    for key in ("data/b", "data/a/x", "data2/c"):
        put(store, key, key.encode(), tmp_path)
    assert keys(store, "data") == ["data/a/x", "data/b", "data2/c"]
    assert keys(store, "b/") == keys(store, "data/a/x/") == []
    listed = list(store.list("bucket", "data/"))
    assert [(entry.key, entry.size) for entry in listed] == [("data/a/x", 8), ("data/b", 6)]
    assert listed[1].md5 == hashlib.md5(b"data/b").hexdigest()


def test_missing_objects_and_buckets_are_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        list(store.read("bucket", "nothing"))
    with pytest.raises(NotFound):
        list(store.list("no-such-bucket", ""))


def test_the_callback_gets_every_byte_and_may_cancel(store: Store, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x" * 3_000_000)
    md5 = hashlib.md5(source.read_bytes()).hexdigest()
    sizes: list[int] = []
    store.write("bucket", "all", source, md5, sizes.append)
    assert sum(sizes) == 3_000_000

    def give_up(size: int) -> None:
        raise NotFound("the caller's own error")

    with pytest.raises(NotFound, match="the caller's own error"):
        store.write("bucket", "given-up", source, md5, give_up)
    assert [entry.key for entry in store.list("bucket", "")] == ["all"]


def test_an_iterator_that_is_closed_early_ends_the_request(store: Store, tmp_path: Path) -> None:
    put(store, "a", b"x" * (3 << 20), tmp_path)
    for _ in range(20):
        pieces = store.read("bucket", "a")
        assert next(iter(pieces))
        pieces.close()  # type: ignore[attr-defined]  # a generator in both stores
    assert keys(store) == ["a"]


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
            keys(open_store({}, root), "../other/")

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
        assert keys(open_store({}, root)) == ["a"]


def bytes_read() -> int:
    """By `read` and its like, of this process, whose sockets are received from."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


@pytest.mark.parametrize("multipart_from", [64 * MIB, 6 * MIB])
def test_a_file_is_read_once(obs: MemoryObs, tmp_path: Path, multipart_from: int) -> None:
    """Its checksum is made of what is sent."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_bytes(CONTENT)
    store = obs_store(obs.url, multipart_from=multipart_from, part=5 * MIB)
    before = bytes_read()
    done = send(store, tmp_path, route("out", "out"))
    read = bytes_read() - before
    assert (done.files, done.by_length) == (1, 0)
    assert [entry.md5 is None for entry in store.list("bucket", "out/a")] == [multipart_from < len(CONTENT)]
    at_the_server = len(CONTENT) if multipart_from < len(CONTENT) else 0  # it assembles the parts
    assert read - at_the_server < 1.5 * len(CONTENT)
    assert content_of(store, "out/a") == CONTENT


def test_temporary_credentials_send_their_token(obs: MemoryObs) -> None:
    environ = {"OBS_ENDPOINT": obs.url, **CREDENTIALS, "OBS_SECURITY_TOKEN": "TOKENPLANTED"}
    assert list(open_store(environ, None).list("bucket", "")) == []


def test_parts_are_sent_without_the_sdk(obs: MemoryObs, tmp_path: Path) -> None:
    """It takes longer to be imported than a hundred requests."""
    (tmp_path / "large").write_bytes(CONTENT)
    done = subprocess.run(
        [sys.executable, "-c", PARTS, obs.url, str(tmp_path / "large")],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.stdout.split() == [str(len(CONTENT)), "False"]


@pytest.mark.parametrize("content", [None, b"no certificate"])
def test_an_invalid_ca_bundle_is_named(tmp_path: Path, content: object) -> None:
    bundle = tmp_path / "bundle.pem"
    if isinstance(content, bytes):
        bundle.write_bytes(content)
    with pytest.raises(CredentialsMissing, match=r"SSL_CERT_FILE.*bundle\.pem"):
        obs_store("https://obs.region.example.com", bundle=str(bundle))
