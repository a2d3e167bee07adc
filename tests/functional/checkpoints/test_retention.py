"""`keep` removes checkpoints that newer ones have replaced, and nothing else."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ma_boot.node.checkpoints.records.documents import Documents
from ma_boot.node.checkpoints.records.retention import finish_removals, remove_checkpoint
from ma_boot.node.checkpoints.steps import RunEnd
from path_mapping.errors import Cancelled
from path_mapping.stores.store import Store
from path_mapping.workers.retry import RetriedStore
from tests.functional.checkpoints.output import (
    FIRST,
    PLACE,
    TestNode,
    keys,
    manifests,
    node_with,
    step_of,
    steps_of,
)

pytestmark = pytest.mark.usefixtures("no_earlier_start_runs")


def data(store: Store) -> list[str]:
    return [key for key in keys(store) if "/iter_" in key]


def test_newest_checkpoints_stay_with_their_files(store: Store, tmp_path: Path) -> None:
    node_with(store, tmp_path, 10, 20, 30, 40, keep=2)
    assert steps_of(manifests(store)) == [40, 30]
    assert len(data(store)) == 2
    assert not keys(store, PLACE.removals)


def test_restored_checkpoint_is_never_removed(store: Store, tmp_path: Path) -> None:
    node = node_with(store, tmp_path, 10, keep=1)
    node.start()
    node.publish(20, 30)
    assert steps_of(manifests(store)) == [30, 10]
    node.start()
    node.publish(40)
    assert steps_of(manifests(store)) == [40, 30]


@pytest.mark.invariant("Retention never removes the only complete checkpoint, nor foreign files")
def test_only_complete_checkpoint_is_never_removed(store: Store, tmp_path: Path) -> None:
    node_with(store, tmp_path / "a", 10, keep=1)
    other = TestNode(tmp_path / "b", store, options={"keep": 1})
    other.start()
    other.save(20)  # the first one, whose names are not known yet
    other.cycle()
    assert other.end(RunEnd.CUT) == {"20": FIRST}
    assert steps_of(manifests(store)) == [10]


def test_interrupted_removal_is_finished_by_the_next_one(store: Store, tmp_path: Path) -> None:
    node = TestNode(tmp_path, store)
    node.start()
    for step in (10, 20):
        node.save(step, {f"{number}.bin": b"x" for number in range(4)})
        node.note_call(step)
        node.cycle(1)
    known = list(PLACE.list_checkpoints(manifests(store)))
    stop = threading.Event()

    class Stopping(Documents):
        def delete(self, key: str) -> None:
            if key.endswith("2.bin"):
                stop.set()
                raise Cancelled
            super().delete(key)

    with pytest.raises(Cancelled):
        remove_checkpoint(Stopping(RetriedStore(store, stop), PLACE), known[1])
    assert steps_of(manifests(store)) == [20], "a reader never sees it again"
    assert len(data(store)) == 6
    finish_removals(Documents(RetriedStore(store), PLACE))
    assert not keys(store, PLACE.removals)
    assert len(data(store)) == 4
    assert step_of(node.start()) == "20"
