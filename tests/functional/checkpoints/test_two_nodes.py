"""Nodes that share nothing but the store: a step counts when all have it, and all go on from the same one."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import List, Sequence

import pytest

from path_mapping.checkpoints import Restored
from path_mapping.errors import NodesMissing, SetUnusable
from path_mapping.stores import FileStore
from tests.functional.checkpoints.output import TestNode, keys, step_of
from tests.functional.node import eventually


def make_nodes(store: FileStore, base: Path, count: int = 2, **options: object) -> List[TestNode]:
    return [TestNode(base / f"disk{node}", store, node, count, dict(options)) for node in range(count)]


def start(nodes: Sequence[TestNode]) -> List[Restored]:
    """Starts all nodes at the same time."""
    with ThreadPoolExecutor(len(nodes)) as pool:
        return list(pool.map(lambda node: node.start(), nodes))


def test_only_what_all_nodes_have_counts(store: FileStore, tmp_path: Path) -> None:
    one, two = make_nodes(store, tmp_path)
    assert [step_of(found) for found in start([one, two])] == [None, None]
    for node in (one, two):
        node.publish(10)
    one.publish(20)
    assert [step_of(found) for found in start([one, two])] == ["10", "10"]
    assert one.files() == two.files(), "every node has all of it, and nothing else"
    assert set(one.files()) == {"iter_10/rank_0.bin", "iter_10/rank_1.bin"}


def test_a_new_disk_gets_what_the_kept_one_has(store: FileStore, tmp_path: Path) -> None:
    one, two = make_nodes(store, tmp_path)
    start([one, two])
    for node in (one, two):
        node.publish(10)
    new = TestNode(tmp_path / "new", store, 1, 2)
    kept, fetched = start([one, new])
    assert (kept.files, fetched.files) == (1, 2)
    assert one.files() == new.files()


def test_no_node_begins_before_the_other_is_there(store: FileStore, tmp_path: Path) -> None:
    one, two = make_nodes(store, tmp_path)
    early: List[Restored] = []
    waiting = threading.Thread(target=lambda: early.append(two.start()))
    waiting.start()
    waiting.join(1.0)
    assert not early, "an old attempt, or none, is no go"
    one.start()
    waiting.join(20)
    assert step_of(early[0]) is None


def test_a_node_that_never_comes_is_named(store: FileStore, tmp_path: Path) -> None:
    one = TestNode(tmp_path, store, 0, 3)
    with pytest.raises(NodesMissing, match="nodes 1, 2 to have the checkpoints"):
        one.start(timeout=0.5)
    two = TestNode(tmp_path, store, 1, 3)
    with pytest.raises(NodesMissing, match="node 0 to go on with attempt-"):
        two.start(timeout=0.5)


def test_what_a_dead_start_has_said_is_no_answer(store: FileStore, tmp_path: Path) -> None:
    """Node 1 answered an attempt that nobody leads any more, and died."""
    one, two = make_nodes(store, tmp_path)
    with pytest.raises(NodesMissing):
        one.start(timeout=0.3)
    with pytest.raises(NodesMissing):
        two.start(timeout=0.5)
    assert [key for key in keys(store) if "ready-" in key]
    assert [step_of(found) for found in start([one, two])] == [None, None]


def test_a_node_that_saves_nothing_does_not_keep_a_step_from_counting(
    store: FileStore, tmp_path: Path
) -> None:
    one, two = make_nodes(store, tmp_path)
    start([one, two])
    for step in (10, 20):
        one.publish(step)
        two.look(30)
    assert [key for key in keys(store) if "-idle-00001-of-00002" in key]
    one.publish(30)
    assert [step_of(found) for found in start([one, two])] == ["30", "30"]
    assert set(two.files()) == {"iter_30/rank_0.bin"}


def test_the_only_step_of_a_node_that_saves_alone_counts_at_the_end(store: FileStore, tmp_path: Path) -> None:
    one, two = make_nodes(store, tmp_path)
    start([one, two])
    one.save(10)
    two.end()  # earlier than the other
    one.end()
    assert [step_of(found) for found in start([one, two])] == ["10", "10"]


def test_names_that_both_nodes_have_do_not_overwrite_each_other(store: FileStore, tmp_path: Path) -> None:
    one, two = make_nodes(store, tmp_path)
    start([one, two])
    for node in (one, two):
        node.save(10, {"model.bin": b"of node %d" % node.node})
        node.look()
    start([one, two])
    assert one.files() == {"iter_10/model.bin": b"of node 0"}
    assert two.files() == {"iter_10/model.bin": b"of node 1"}


def test_another_number_of_ranks_is_refused_where_names_are_by_rank(store: FileStore, tmp_path: Path) -> None:
    pattern = ("iter_{step}/rank_{rank}.bin",)
    nodes = make_nodes(store, tmp_path, 2, checkpoint=pattern)
    start(nodes)
    for node in nodes:
        node.publish(10)
    alone = TestNode(tmp_path / "alone", store, 0, 1, {"checkpoint": pattern})
    with pytest.raises(SetUnusable, match="was written by 2 ranks on 2 nodes, this job has 1"):
        alone.start()
    assert not alone.files(), "nothing was fetched for it"


def test_in_a_hurry_what_can_still_become_whole_goes_first(store: FileStore, tmp_path: Path) -> None:
    one, two = make_nodes(store, tmp_path)
    start([one, two])
    two.publish(10)
    for step in (10, 20):
        one.save(step)
    assert one.end(hurry=True) == {}
    assert one.published == ["10", "20"]
    one.save(30)
    one.save(40)
    one.end(hurry=True)
    assert one.published == ["10", "20", "40", "30"], "else the newest"


def test_a_step_that_is_not_settled_when_the_training_fails_is_given_up(
    store: FileStore, tmp_path: Path
) -> None:
    node = TestNode(tmp_path, store)
    node.start()
    node.publish(10)
    node.save(20)
    assert node.end(well=False) == {"20": "it may still be written to"}
    assert step_of(node.start()) == "10"


def test_a_step_that_is_written_to_after_all_is_withdrawn_and_published_anew(
    store: FileStore, tmp_path: Path
) -> None:
    node = TestNode(tmp_path, store)
    node.start()
    node.publish(10)
    node.save(10, {"rank_1.bin": b"late"})
    assert node.output.publisher is not None
    node.look(1)
    assert not list(keys(store, "ckpt/.ma_boot/sets/")), "it does not count any more"
    node.look()
    other = TestNode(tmp_path / "other", store)
    other.start()
    assert other.files() == node.files()


def test_the_clocks_of_nodes_may_differ(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = make_nodes(store, tmp_path)
    start([one, two])
    for step in (10, 20):
        for node, minutes in ((one, 10 if step == 10 else -10), (two, 0)):
            ahead = time.time() + 60 * minutes
            monkeypatch.setattr(time, "gmtime", lambda *at, ahead=ahead: time.localtime(ahead))
            node.save(step)
            for path in (node.out / f"iter_{step}").iterdir():
                os.utime(path, (ahead, ahead))
            node.look()
    assert [step_of(found) for found in start([one, two])] == ["20", "20"]


def test_a_node_that_is_restarted_while_the_others_wait_takes_part(store: FileStore, tmp_path: Path) -> None:
    """Node 1 of three answers and dies; its next start answers while node 0 still waits for node 2."""
    nodes = make_nodes(store, tmp_path, 3)
    with ThreadPoolExecutor(3) as pool:
        started = [pool.submit(nodes[0].start)]
        with pytest.raises(NodesMissing):
            nodes[1].start(timeout=1)
        started.append(pool.submit(nodes[1].start))
        eventually(lambda: sum("/ready-00001-" in key for key in keys(store)) >= 2, "node 1 answers again")
        started.append(pool.submit(nodes[2].start))
        assert [step_of(one.result()) for one in started] == [None] * 3
    assert any("two starts of node 1 have answered" in line for line in nodes[0].said), nodes[0].said


def test_a_node_that_is_restarted_after_the_go_is_told_what_it_waits_for(
    store: FileStore, tmp_path: Path
) -> None:
    one, two = make_nodes(store, tmp_path)
    start([one, two])
    with pytest.raises(
        NodesMissing, match=r"attempt-000001-.... has gone on with an earlier start of node 1"
    ):
        two.start(timeout=0.1)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"nodes": 2, "set": [{}]}', b'{"nodes": 2, "set": 7}']
)
def test_damaged_documents_of_an_attempt_stop_nobody(
    store: FileStore, tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "damaged"
    file.write_bytes(content)
    for name in ("begin.json", "ready-00001-ab.json", "strange"):
        key = f"ckpt/.ma_boot/attempts/999990-abcd/{name}"
        store.write("bucket", key, file, hashlib.md5(content).hexdigest(), lambda size: None)
    assert [step_of(found) for found in start(make_nodes(store, tmp_path))] == [None, None]
