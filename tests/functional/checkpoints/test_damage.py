"""Checkpoints that were damaged in the store: the job resumes from the one before, and reports it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ma_boot.errors import ConfigError
from path_mapping.errors import NoSpace, UnsafeTarget
from path_mapping.stores.store import Store
from tests.functional.checkpoints.output import (
    TestNode,
    keys,
    make_nodes,
    manifests,
    node_with,
    publish,
    put,
    start,
    step_of,
)

DAMAGES = {"cut": b"20 of", "of the same size": b"2x of node 0" * 99, "empty": b"", "gone": None}


def key_of(store: Store, end: str) -> str:
    return next(key for key in keys(store) if key.endswith(end))


@pytest.mark.invariant("No fault of OBS loses a checkpoint or completes a damaged one")
@pytest.mark.parametrize("content", DAMAGES.values(), ids=DAMAGES)
def test_damaged_file_makes_the_job_resume_from_the_checkpoint_before(
    store: Store, tmp_path: Path, content: bytes | None
) -> None:
    node_with(store, tmp_path / "a", 10, 20)
    key = key_of(store, "iter_20/rank_0.bin")
    if content is None:
        store.delete("bucket", key)
    else:
        put(store, key, content)
    other = TestNode(tmp_path / "b", store)
    assert step_of(other.start()) == "10"
    assert set(other.files()) == {"iter_10/rank_0.bin"}
    assert any("damaged, trying the one before" in line for line in other.printed), other.printed


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1}', b'{"format": 99}', b"\xff\x00"])
def test_damaged_manifest_makes_its_checkpoint_incomplete(
    store: Store, tmp_path: Path, content: bytes
) -> None:
    node_with(store, tmp_path / "a", 10, 20)
    put(store, manifests(store)[0], content)
    other = TestNode(tmp_path / "b", store)
    assert step_of(other.start()) == "10"
    assert any("skipping incomplete checkpoint: step 20" in line for line in other.printed), other.printed


def test_a_manifest_cannot_lead_out_of_the_output(store: Store, tmp_path: Path) -> None:
    node_with(store, tmp_path / "a", 10)
    (key,) = manifests(store)
    text = b"".join(store.read("bucket", key))
    for path in (b"../iter_10/x", b"/etc/x", b".ma_boot/spool/x", b"iter_10/../../x"):
        put(store, key, text.replace(b'"path":"iter_10/rank_0.bin"', b'"path":"' + path + b'"'))
        other = TestNode(tmp_path / "b", store)
        assert step_of(other.start()) is None
        assert any("THE TRAINING STARTS FROM THE BEGINNING" in line for line in other.printed)


@pytest.mark.invariant(
    "A training resumes only from a complete checkpoint, on all nodes, after a kill at any moment"
)
def test_all_nodes_go_back_if_one_finds_damage(store: Store, tmp_path: Path) -> None:
    pattern = ("iter_{step}/rank_{rank}.bin",)  # each node fetches its own files only
    nodes = make_nodes(store, tmp_path, 2, layout=pattern)
    start(nodes)
    publish(nodes, 10, 20)
    store.delete("bucket", key_of(store, "iter_20/rank_1.bin"))
    new = make_nodes(store, tmp_path / "new", 2, layout=pattern)
    assert list(map(step_of, start(new))) == ["10", "10"]
    assert [list(node.files()) for node in new] == [["iter_10/rank_0.bin"], ["iter_10/rank_1.bin"]]


def test_job_does_not_start_over_if_all_checkpoints_are_damaged(store: Store, tmp_path: Path) -> None:
    node_with(store, tmp_path / "a", 10, 20)
    for key in keys(store):
        if key.endswith("rank_0.bin"):
            store.delete("bucket", key)
    with pytest.raises(
        ConfigError, match="each of the 2 complete checkpoints in obs://bucket/ckpt/ is damaged"
    ):
        TestNode(tmp_path / "b", store).start()


def test_download_does_not_begin_if_the_disk_is_too_small(store: Store, tmp_path: Path) -> None:
    node_with(store, tmp_path / "a", 10)
    (key,) = manifests(store)
    text = b"".join(store.read("bucket", key))
    put(store, key, text.replace(b'"size":1188', b'"size":%d' % 10**16))
    with pytest.raises(NoSpace, match="GB needed"):
        TestNode(tmp_path / "b", store).start()
    assert not (tmp_path / "b/out").exists()


def test_no_link_leads_out_of_the_directory(store: Store, tmp_path: Path) -> None:
    node_with(store, tmp_path / "a", 10)
    other = TestNode(tmp_path / "b", store)
    outside = tmp_path / "outside"
    outside.mkdir()
    other.out.mkdir(parents=True)
    (other.out / "iter_10").symlink_to(outside)
    with pytest.raises(UnsafeTarget, match="a link leads to"):
        other.start()
    assert not list(outside.iterdir())
