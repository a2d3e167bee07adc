"""Files of steps that were killed before their manifest: they go, and nothing else does."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ma_boot.cli.app import main
from ma_boot.node.checkpoints import upkeep
from path_mapping.stores.store import Store
from tests.functional.checkpoints.output import (
    TestNode,
    keys,
    make_nodes,
    manifests,
    node_with,
    printed,
    publish,
    put,
    start,
    step_of,
    steps_of,
)

WHERE = "obs://bucket/ckpt"


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch, no_earlier_start_runs: None) -> None:
    """Files need not be old to be removed; OBS tells times in whole seconds."""
    monkeypatch.setattr(upkeep, "SPARED_SECONDS", -2.0)


def killed_in(node: TestNode, step: int) -> list[str]:
    """A step whose files go up, and then the node dies; returns their keys."""
    before = set(keys(node.store))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "ma_boot.node.checkpoints.records.documents.Documents.write",
            lambda *of: (_ for _ in ()).throw(InterruptedError),
        )
        node.save(step)
        node.note_call(step)
        with pytest.raises(InterruptedError):
            node.cycle()
    return sorted(set(keys(node.store)) - before)


@pytest.mark.usefixtures("at_once")
def test_new_start_removes_unpublished_files_of_a_killed_one(store: Store, tmp_path: Path) -> None:
    node = node_with(store, tmp_path / "a", 10, keep=3)
    left = killed_in(node, 20)
    assert [key.rpartition("/iter_")[2] for key in left] == ["20/rank_0.bin"]
    stays = set(keys(store)) - set(left)
    new = TestNode(tmp_path / "b", store, options={"keep": 3})
    assert step_of(new.start()) == "10"
    assert set(left) <= set(keys(store)), "not before a newer checkpoint is complete"
    new.publish(30)
    assert not set(left) & set(keys(store))
    assert stays <= set(keys(store))
    assert printed([new], "removed 1 files of steps that an earlier start could not publish")


def test_leftovers_younger_than_an_hour_stay(store: Store, tmp_path: Path) -> None:
    """Its start may not be as dead as it seems, and write the manifest any moment."""
    node = node_with(store, tmp_path / "a", keep=3)
    left = killed_in(node, 20)
    node_with(store, tmp_path / "b", 30, keep=3)
    assert set(left) <= set(keys(store))


@pytest.mark.invariant("Retention never removes the only complete checkpoint, nor foreign files")
@pytest.mark.usefixtures("at_once")
def test_foreign_files_are_never_removed(store: Store, tmp_path: Path) -> None:
    node = node_with(store, tmp_path / "a", 10, 15)
    killed_in(node, 20)
    others = [
        f"ckpt/{node.attempt}/iter_10/notes.txt",  # beside the files of a checkpoint, which is removed
        "ckpt/iter_10/rank_0.bin",
        f"ckpt/{node.attempt}/notes.txt",
        f"ckpt/{node.attempt}.old/iter_20/rank_0.bin",
        "ckpt/attempt-000001-beef/iter_20/rank_0.bin",  # without a document of ma_boot
        "ckpt/attempt-1/iter_20/rank_0.bin",
        "ckpt/iter_20/rank_0.bin",
        "ckpt2/attempt-000001-beef/iter_20/rank_0.bin",
    ]
    for key in others:
        put(store, key, b"of another program")
    new = node_with(store, tmp_path / "b", 30, keep=1)
    assert steps_of(manifests(store)) == [30, 15], "the newest, and the one that was restored"
    assert printed([new], "removed 1 files")
    assert set(others) <= set(keys(store, ""))


@pytest.mark.invariant("Retention never removes the only complete checkpoint, nor foreign files")
@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("nodes", [1, 2])
def test_published_files_are_never_leftovers(store: Store, tmp_path: Path, nodes: int) -> None:
    """Also where a node has published, and another one was killed before it did."""
    old = make_nodes(store, tmp_path / "a", nodes, keep=3)
    start(old)
    publish(old, 10, 20)
    named = set(keys(store))
    left = killed_in(old[-1], 30)
    new = make_nodes(store, tmp_path / "b", nodes, keep=3)
    assert list(map(step_of, start(new))) == ["20"] * nodes
    publish(new[::-1], 40)
    assert not set(left) & set(keys(store))
    assert named <= set(keys(store))


@pytest.mark.usefixtures("at_once")
def test_leftovers_too_few_to_show_a_layout_are_removed(store: Store, tmp_path: Path) -> None:
    attempt = node_with(store, tmp_path / "a", layout=("auto",)).attempt
    names = ["checkpoint-20/optimizer.pt", "checkpoint-20/scheduler.pt", "notes.txt"]
    for name in names:
        put(store, f"ckpt/{attempt}/{name}", b"sent before the step was killed")
    node_with(store, tmp_path / "b", 30, keep=3)
    assert [name for name in names if f"ckpt/{attempt}/{name}" in keys(store)] == ["notes.txt"]


def test_prune_by_hand_spares_the_newest_start_unless_an_age_is_given(
    local_store: Store, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    store = local_store
    node = node_with(store, tmp_path / "a", 10)
    left = killed_in(node, 20)
    for key in left:
        os.utime(tmp_path / "obs" / "bucket" / key, (1, 1))

    def prune(*words: str) -> list[str]:
        assert main(["checkpoint", "prune", WHERE, "--obs-root", "obs", *words], {"HOME": "/nowhere"}) == 0
        return capfd.readouterr().out.splitlines()

    assert prune() == ["0 checkpoints and 0 files without a manifest removed"]
    assert (
        prune("--older-than", "1d", "--plan")[-1]
        == "0 checkpoints and 1 files without a manifest would be removed"
    )
    (line,) = prune("--older-than", "1d", "--plan", "--json")
    assert json.loads(line)["files"] == 1
    assert "step 20 of attempt-000001-" in json.loads(line)["checkpoint"]
    assert set(left) <= set(keys(store))
    TestNode(tmp_path / "b", store).start()  # the one that left it is over now
    assert prune()[-1] == "0 checkpoints and 1 files without a manifest removed"
    assert not set(left) & set(keys(store))
    assert [key for key in keys(store) if "iter_10/" in key]
