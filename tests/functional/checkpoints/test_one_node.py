"""A node alone: what it has published is what its next start goes on from."""

from __future__ import annotations

import shutil
from pathlib import Path

from path_mapping.stores import FileStore
from tests.functional.checkpoints.output import TestNode, keys, step_of


def test_the_next_start_goes_on_from_the_newest_step(store: FileStore, tmp_path: Path) -> None:
    node = TestNode(tmp_path / "a", store)
    assert node.start().chosen is None
    for step in (10, 20):
        node.save(step)
        node.look()
    node.save(30)  # never settled: the node is killed
    other = TestNode(tmp_path / "b", store)
    restored = other.start()
    assert step_of(restored) == "20"
    assert other.files() == {"iter_20/rank_0.bin": b"20 of node 0" * 99}


def test_a_kept_disk_is_not_fetched_and_shows_nothing_else(store: FileStore, tmp_path: Path) -> None:
    node = TestNode(tmp_path, store)
    node.start()
    for step in (10, 20):
        node.save(step)
        node.look()
    node.save(30)
    restored = node.start()
    assert (step_of(restored), restored.files) == ("20", 0)
    assert set(node.files()) == {"iter_20/rank_0.bin"}
    assert not (node.out / "iter_30").exists()
    assert (node.base / ".out.aside/iter_30/rank_0.bin").exists()


def test_the_last_step_is_published_at_the_end(store: FileStore, tmp_path: Path) -> None:
    node = TestNode(tmp_path, store)
    node.start()
    node.save(10)
    assert node.end() == {}
    shutil.rmtree(node.out)
    assert step_of(node.start()) == "10"
    assert [key for key in keys(store) if key.endswith("iter_10/rank_0.bin")]
