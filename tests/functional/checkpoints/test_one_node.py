"""A job of one node resumes from the checkpoint that its last start has published."""

from __future__ import annotations

from pathlib import Path

from path_mapping.stores.store import Store
from tests.functional.checkpoints.output import TestNode, keys, node_with, step_of
from tests.transfers import write

TRACKER = "latest_checkpointed_iteration.txt"


def test_next_start_resumes_from_the_newest_step(store: Store, tmp_path: Path) -> None:
    """Files on a kept disk are not downloaded, and no others stay."""
    node = node_with(store, tmp_path / "a", 10, 20)
    node.save(30)  # never settled: the node is killed
    new = TestNode(tmp_path / "b", store)
    for started, fetched in ((new, 1), (node, 0)):
        restored = started.start()
        assert (step_of(restored), restored.files) == ("20", fetched)
        assert started.files() == {"iter_20/rank_0.bin": b"20 of node 0" * 99}
    assert not (node.out / "iter_30").exists()
    assert (node.base / ".out.aside/iter_30/rank_0.bin").exists()


def test_files_without_a_step_are_reported(store: Store, tmp_path: Path) -> None:
    node = TestNode(tmp_path, store, options={"layout": ("auto",)})
    node.start()
    write(node.out, {"weights-of-today": b"x", "logs/a": b"x"})
    node.cycle()
    assert not node.printed, "the first step may come late"
    node.end()
    (line,) = node.printed
    assert "the names of logs/a, weights-of-today in" in line
    assert "checkpoint(step)" in line


def test_pointer_of_the_framework_is_made_locally_and_never_uploaded(store: Store, tmp_path: Path) -> None:
    node = TestNode(tmp_path / "a", store, options={"layout": ("megatron-legacy",)})
    node.start()
    for step in (100, 200):
        name = f"iter_{step:07}/mp_rank_00"
        write(node.out, {f"{name}/model_optim_rng.pt": b"old format %d" % step, TRACKER: b"%d" % step})
        node.cycle()
    write(node.out, {TRACKER: b"300"})  # a step that never came
    node.end()
    other = TestNode(tmp_path / "b", store, options={"layout": ("megatron-legacy",)})
    assert step_of(other.start()) == "200"
    assert other.files()[TRACKER] == b"200"
    assert not [key for key in keys(store) if key.endswith(TRACKER)]
