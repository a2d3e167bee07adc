"""Races of trainings and publishing: a step is complete as it was at one moment, or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ma_boot.node.checkpoints.downloads.restoring import Restorer
from ma_boot.node.checkpoints.output import ordinary_files
from ma_boot.node.checkpoints.records import attempt_protocol
from ma_boot.node.checkpoints.steps import RunEnd
from path_mapping.stores.store import Store
from tests.functional.checkpoints.job import Job
from tests.functional.checkpoints.output import (
    FIRST,
    TestNode,
    keys,
    make_nodes,
    node_with,
    printed,
    publish,
    start,
    step_of,
)
from tests.functional.node import Node, eventually
from tests.obs import MemoryObs
from tests.transfers import write

pytestmark = pytest.mark.parametrize("store", ["directory"], indirect=True)


def stored(store: Store, end: str) -> list[bytes]:
    return [b"".join(store.read("bucket", key)) for key in keys(store) if key.endswith(end)]


@pytest.mark.parametrize("savers", [None, "first"])
def test_node_that_never_saves_keeps_steps_incomplete_and_each_node_reports_it(
    store: Store, tmp_path: Path, savers: Any
) -> None:
    nodes = make_nodes(store, tmp_path, savers=savers)
    start(nodes)
    for step in (10, 20, 30):
        nodes[0].publish(step)
        time.sleep(0.07)  # longer than three intervals
        for node in nodes:
            node.cycle(1)
    lines = printed(nodes, "INCOMPLETE")
    assert len(lines) == (0 if savers else 2), "once on every node"
    for line in lines:
        assert "published by node 0 (1 files, such as iter_" in line
        assert "not yet by node 1" in line
        assert line.endswith("add to the mapping: 'savers': 'first'")
    for node in nodes:
        assert node.end() == {}, "no file was left behind"
    assert list(map(step_of, start(nodes))) == ["30" if savers else None] * 2


def test_slow_node_only_delays_completeness(store: Store, tmp_path: Path) -> None:
    fast, slow = nodes = make_nodes(store, tmp_path)
    start(nodes)
    for step in (10, 20, 30):
        for node in nodes:
            node.save(step)
            node.note_call(step)
            node.publisher.take()
        fast.cycle(1)
    shutil.rmtree(slow.out)  # its framework keeps nothing
    slow.cycle(1)
    assert slow.published == ["30", "20", "10"], "the newest first, as it was when it was complete"
    assert list(map(step_of, start(make_nodes(store, tmp_path / "new")))) == ["30", "30"]


def test_step_rewritten_before_its_upload_is_taken_anew(store: Store, tmp_path: Path) -> None:
    node = TestNode(tmp_path, store)
    node.start()
    node.save(10)
    node.note_call(10)
    node.publisher.take()
    (path,) = (node.out / "iter_10").iterdir()
    with path.open("r+b") as file:  # the same file, which the snapshot has, too
        file.write(b"later")
    node.cycle(2)
    (content,) = stored(store, "iter_10/rank_0.bin")
    assert content.startswith(b"later")


def test_step_saved_again_makes_a_version_of_all_its_files(store: Store, tmp_path: Path) -> None:
    node = TestNode(tmp_path, store)
    node.start()
    files = {name: f"{name} once".encode() for name in "ab"}
    node.save(10, files)
    node.save(20, files)
    node.cycle()
    assert sorted(node.published) == ["10", "20"]
    for name in "ab":  # the same content: no new version
        (node.out / f"iter_10/{name}").write_bytes(files[name])
    node.cycle()
    assert len(node.published) == 2
    (node.out / "iter_20/a").write_bytes(b"a twice")
    node.cycle()
    assert len(node.published) == 2, "half of its files make no version"
    (node.out / "iter_20/b").write_bytes(b"b twice")
    node.cycle()
    (node.out / "iter_20/c").write_bytes(b"")
    node.cycle()
    assert len(node.published) == 4
    assert stored(store, "iter_20/c") == [b""], "an empty file is a file"
    assert stored(store, "iter_20/a") == [b"a twice"], "the older versions went when the newer counted"
    other = TestNode(tmp_path / "other", store)
    assert step_of(other.start()) == "20"
    assert other.files() == {"iter_20/a": b"a twice", "iter_20/b": b"b twice", "iter_20/c": b""}


def test_incomplete_version_leaves_the_one_before_intact(store: Store, tmp_path: Path) -> None:
    first, _ = nodes = make_nodes(store, tmp_path)
    start(nodes)
    publish(nodes, 10)
    first.save(10, {"rank_0.bin": b"saved again"})
    first.note_call(10)
    first.cycle(1)
    assert first.published == ["10", "10"]
    new = make_nodes(store, tmp_path / "new")
    assert list(map(step_of, start(new))) == ["10", "10"]
    assert new[0].files()["iter_10/rank_0.bin"] == b"10 of node 0" * 99


def test_steps_are_uploaded_from_their_place_without_space_for_snapshots(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*of: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("ma_boot.node.checkpoints.disk.os.link", full)
    monkeypatch.setattr("ma_boot.node.checkpoints.disk.free_bytes", lambda directory: 0)
    node = node_with(store, tmp_path, 10, 20)
    (line,) = printed([node], "no snapshot can be made")
    assert "from step 10 on, steps are uploaded from where the training has them" in line
    assert step_of(TestNode(tmp_path / "other", store).start()) == "20"


def test_node_that_is_not_a_saver_reports_its_unpublished_files_once(store: Store, tmp_path: Path) -> None:
    nodes = make_nodes(store, tmp_path, savers="first")
    start(nodes)
    publish(nodes, 10, 20)
    (line,) = printed(nodes, "is not a saver")
    assert "this node has files of step 10" in line
    assert list(map(step_of, start(nodes))) == ["20", "20"]


def test_nodes_wait_for_a_node_that_still_downloads(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Restorer.restore

    def slowly(restorer: Restorer, chosen: Any) -> Any:
        time.sleep(2.5 if restorer.node == 1 else 0)
        return real(restorer, chosen)

    monkeypatch.setattr(Restorer, "restore", slowly)
    monkeypatch.setattr(attempt_protocol, "LOOK_SECONDS", (0.05, 0.1))
    with ThreadPoolExecutor(2) as pool:
        restored = list(pool.map(lambda node: node.start(1.0), make_nodes(store, tmp_path)))
    assert list(map(step_of, restored)) == [None, None]


def test_temporary_and_own_directories_are_not_uploaded(store: Store, tmp_path: Path) -> None:
    node = TestNode(tmp_path, store, options={"layout": ("transformers",)})
    node.start()
    names = (
        "out/train.log",
        "out/checkpoint-500/model.bin",
        "out/tmp-checkpoint-500/model.bin",
        "out/.ma_boot/restoring/x",
        ".out.sending/1/checkpoint-500/model.bin",
        ".out.aside/checkpoint-500/model.bin",
    )
    write(tmp_path, dict.fromkeys(names, b"x"))
    node.cycle(1)
    for has_ended, ordinary in ((False, names[:1]), (True, names[:2])):
        is_ordinary = ordinary_files([node.output.target.route], tmp_path, [node.output], has_ended)
        assert tuple(name for name in names if is_ordinary(str(tmp_path / name))) == ordinary


def test_steps_set_aside_are_removed_when_the_next_checkpoint_is_complete(
    store: Store, tmp_path: Path
) -> None:
    node = node_with(store, tmp_path, 10)
    node.save(30)
    node.start()
    assert (tmp_path / ".out.aside/iter_30").exists()
    node.start()  # killed before a checkpoint is complete: it is the only copy of a step
    assert (tmp_path / ".out.aside/iter_30").exists()
    node.publish(40)
    assert not (tmp_path / ".out.aside").exists()


def test_uncalled_explicit_step_is_lost_with_its_reason(store: Store, tmp_path: Path) -> None:
    node = TestNode(tmp_path, store, options={"is_explicit": True})
    node.start()
    node.save(10)
    node.cycle()
    assert node.end(RunEnd.WELL) == {"10": "no rank has called checkpoint for it"}
    cut = TestNode(tmp_path / "cut", store)
    cut.start()
    cut.save(10)
    assert cut.end(RunEnd.CUT) == {"10": FIRST}


HANDLER = """
import os, signal, sys, time
from pathlib import Path
out, rank = Path(sys.argv[1]), os.environ["RANK_ID"]
def save(step):
    (out / f"iter_{step}").mkdir(parents=True, exist_ok=True)
    (out / f"iter_{step}" / f"rank_{rank}.bin").write_bytes(f"{step} of {rank};".encode() * 10_000)
def stopped(*of):
    save(99)
    sys.exit(0)
signal.signal(signal.SIGTERM, stopped)
save(10)
save(20)
(out / f"ready_{rank}").touch()
while True: time.sleep(0.01)
"""


def test_step_saved_by_a_stop_handler_is_complete_at_once(store: Store, node: Node, obs: MemoryObs) -> None:
    job = Job(node, obs)
    (node.home / "train.py").write_text(HANDLER)
    running = node.start(*job.arguments(0))
    eventually(lambda: job.published() == 2, "what was saved before")
    running.signal(signal.SIGTERM)
    ended = running.end()
    assert ended.code == 128 + signal.SIGTERM
    assert "step 99 is the last one of this node, step 99 the newest complete one" in ended.output, (
        ended.output
    )
    assert os.path.exists(job.out / "iter_99")


def test_files_of_a_dying_process_never_make_a_complete_step(store: Store, tmp_path: Path) -> None:
    node = TestNode(tmp_path, store, options={"layout": ("iter_{step}/rank_{rank}.bin",)}, ranks=(0, 1))
    node.start()
    for step in (10, 20):
        node.save(step, {"rank_0.bin": b"whole", "rank_1.bin": b"whole"})
    node.cycle()
    assert sorted(node.published) == ["10", "20"]
    node.save(30, {"rank_1.bin": b"stal"})
    with (node.out / "iter_30/rank_1.bin").open("ab"):  # its writer hangs for long
        node.save(30, {"rank_0.bin": b"whole"})
        node.cycle()
    node.save(40, {"rank_0.bin": b"whole", "rank_1.bin": b"who"})
    node.publisher.watch.cut()
    node.cycle()
    assert sorted(node.published) == ["10", "20"], "they are at rest because their writer is dead"
    node.save(40, {"rank_0.bin": b"whole", "rank_1.bin": b"whole"})
    node.cycle()
    assert sorted(node.published) == ["10", "20", "40"], "saved by processes that live"
    node.save(50, {"rank_0.bin": b"whole", "rank_1.bin": b"who"})
    waiting = node.end(RunEnd.CUT)
    assert list(waiting) == ["30", "50"]
    assert waiting["30"] == "iter_30/rank_1.bin may still have been written to when a process died"
    node.cycle()
    assert sorted(node.published) == ["10", "20", "40"], "nothing is taken after the end"
