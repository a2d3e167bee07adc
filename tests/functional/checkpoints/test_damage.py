"""Sets that were damaged in the store: the job goes on from the one before, and says so."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Callable

import pytest

from ma_boot.errors import ConfigError
from path_mapping.errors import NoSpace, UnsafeTarget
from path_mapping.stores import Store
from tests.functional.checkpoints.output import TestNode, keys, step_of
from tests.functional.checkpoints.test_two_nodes import make_nodes, start

Damage = Callable[[Store, str, Path], None]


def overwrite(content: bytes) -> Damage:
    def damage(store: Store, key: str, base: Path) -> None:
        file = base / "other"
        file.write_bytes(content)
        store.write("bucket", key, file, hashlib.md5(content).hexdigest(), lambda size: None)

    return damage


def delete(store: Store, key: str, base: Path) -> None:
    store.delete("bucket", key)


DAMAGES = {
    "cut": overwrite(b"20 of"),
    "of the same size": overwrite(b"2x of node 0" * 99),
    "empty": overwrite(b""),
    "gone": delete,
}


def key_of(store: Store, end: str) -> str:
    return next(key for key in keys(store) if key.endswith(end))


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_file_sends_the_job_to_the_set_before(store: Store, tmp_path: Path, how: str) -> None:
    node = TestNode(tmp_path / "a", store)
    node.start()
    node.publish(10, 20)
    DAMAGES[how](store, key_of(store, "iter_20/rank_0.bin"), tmp_path)
    other = TestNode(tmp_path / "b", store)
    assert step_of(other.start()) == "10"
    assert set(other.files()) == {"iter_10/rank_0.bin"}
    assert any("damaged, trying the one before" in line for line in other.printed), other.printed


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1}', b'{"format": 99}', b"\xff\x00"])
def test_a_damaged_manifest_is_no_manifest(store: Store, tmp_path: Path, content: bytes) -> None:
    node = TestNode(tmp_path / "a", store)
    node.start()
    node.publish(10, 20)
    newest = keys(store, "ckpt/.ma_boot/sets/")[0]
    overwrite(content)(store, newest, tmp_path)
    other = TestNode(tmp_path / "b", store)
    assert step_of(other.start()) == "10"
    assert any("does not count, so passed over: step 20" in line for line in other.printed), other.printed


def test_a_manifest_cannot_lead_out_of_the_output(store: Store, tmp_path: Path) -> None:
    node = TestNode(tmp_path / "a", store)
    node.start()
    node.publish(10)
    key = keys(store, "ckpt/.ma_boot/sets/")[0]
    text = b"".join(store.read("bucket", key))
    for path in (b"../iter_10/x", b"/etc/x", b".ma_boot/spool/x", b"iter_10/../../x"):
        overwrite(text.replace(b'"path":"iter_10/rank_0.bin"', b'"path":"' + path + b'"'))(
            store, key, tmp_path
        )
        other = TestNode(tmp_path / "b", store)
        assert step_of(other.start()) is None
        assert any("THE TRAINING STARTS FROM THE BEGINNING" in line for line in other.printed)


def test_all_nodes_go_back_if_one_finds_damage(store: Store, tmp_path: Path) -> None:
    pattern = ("iter_{step}/rank_{rank}.bin",)  # each node fetches its own files only
    nodes = make_nodes(store, tmp_path, 2, layout=pattern)
    start(nodes)
    for node in nodes:
        node.publish(10, 20)
    delete(store, key_of(store, "iter_20/rank_1.bin"), tmp_path)
    new = make_nodes(store, tmp_path / "new", 2, layout=pattern)
    assert [step_of(found) for found in start(new)] == ["10", "10"]
    assert set(new[0].files()) == {"iter_10/rank_0.bin"}
    assert set(new[1].files()) == {"iter_10/rank_1.bin"}


def test_if_all_sets_are_damaged_the_job_does_not_begin_anew_by_itself(store: Store, tmp_path: Path) -> None:
    node = TestNode(tmp_path / "a", store)
    node.start()
    node.publish(10, 20)
    for key in [key for key in keys(store) if key.endswith("rank_0.bin")]:
        delete(store, key, tmp_path)
    other = TestNode(tmp_path / "b", store)
    with pytest.raises(ConfigError, match="each of the 2 sets in obs://bucket/ckpt/ is damaged"):
        other.start()


def test_a_set_that_does_not_fit_is_not_begun_to_be_fetched(store: Store, tmp_path: Path) -> None:
    node = TestNode(tmp_path / "a", store)
    node.start()
    node.publish(10)
    key = keys(store, "ckpt/.ma_boot/sets/")[0]
    text = b"".join(store.read("bucket", key))
    overwrite(text.replace(b'"size":1188', b'"size":%d' % 10**16))(store, key, tmp_path)
    with pytest.raises(NoSpace, match="GB needed"):
        TestNode(tmp_path / "b", store).start()
    assert not (tmp_path / "b/out").exists()


def test_no_link_leads_out_of_the_directory(store: Store, tmp_path: Path) -> None:
    node = TestNode(tmp_path / "a", store)
    node.start()
    node.publish(10)
    other = TestNode(tmp_path / "b", store)
    outside = tmp_path / "outside"
    outside.mkdir()
    other.out.mkdir(parents=True)
    (other.out / "iter_10").symlink_to(outside)
    with pytest.raises(UnsafeTarget, match="a link leads to"):
        other.start()
    assert not list(outside.iterdir())
