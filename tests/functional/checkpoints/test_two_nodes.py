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

from ma_boot.checkpoints import Restored
from ma_boot.errors import ConfigError, NodesLate
from path_mapping.stores import Store
from tests.functional.checkpoints.output import TestNode, keys, step_of
from tests.functional.node import eventually


def make_nodes(store: Store, base: Path, count: int = 2, **options: object) -> List[TestNode]:
    return [TestNode(base / f"disk{node}", store, node, count, dict(options)) for node in range(count)]


def start(nodes: Sequence[TestNode]) -> List[Restored]:
    """Starts all nodes at the same time."""
    with ThreadPoolExecutor(len(nodes)) as pool:
        return list(pool.map(lambda node: node.start(), nodes))


def test_only_what_all_nodes_have_counts(store: Store, tmp_path: Path) -> None:
    one, two = make_nodes(store, tmp_path)
    assert [step_of(found) for found in start([one, two])] == [None, None]
    for node in (one, two):
        node.publish(10)
    one.publish(20)
    assert [step_of(found) for found in start([one, two])] == ["10", "10"]
    assert one.files() == two.files(), "every node has all of it, and nothing else"
    assert set(one.files()) == {"iter_10/rank_0.bin", "iter_10/rank_1.bin"}


def test_a_new_disk_gets_what_the_kept_one_has(store: Store, tmp_path: Path) -> None:
    one, two = make_nodes(store, tmp_path)
    start([one, two])
    for node in (one, two):
        node.publish(10)
    new = TestNode(tmp_path / "new", store, 1, 2)
    kept, fetched = start([one, new])
    assert (kept.files, fetched.files) == (1, 2)
    assert one.files() == new.files()


def test_no_node_begins_before_the_other_is_there(store: Store, tmp_path: Path) -> None:
    one, two = make_nodes(store, tmp_path)
    early: List[Restored] = []
    waiting = threading.Thread(target=lambda: early.append(two.start()))
    waiting.start()
    waiting.join(1.0)
    assert not early, "an old attempt, or none, is no go"
    one.start()
    waiting.join(20)
    assert step_of(early[0]) is None


def test_a_node_that_never_comes_is_named(store: Store, tmp_path: Path) -> None:
    one = TestNode(tmp_path, store, 0, 3)
    with pytest.raises(NodesLate, match="nodes 1, 2 to have the checkpoints"):
        one.start(timeout=0.5)
    two = TestNode(tmp_path, store, 1, 3)
    with pytest.raises(NodesLate, match="node 0 to begin a new attempt"):
        two.start(timeout=0.5)


def test_what_a_dead_start_has_said_is_no_answer(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Node 1 answered an attempt that nobody leads any more, and died."""
    monkeypatch.setattr("ma_boot.checkpoints.attempts.write_end", lambda *of: None)  # it was killed
    one, two = make_nodes(store, tmp_path)
    with pytest.raises(NodesLate):
        one.start(timeout=0.3)
    with pytest.raises(NodesLate):
        two.start(timeout=0.5)
    assert [key for key in keys(store) if "ready-" in key]
    assert [step_of(found) for found in start([one, two])] == [None, None]


def test_names_that_both_nodes_have_do_not_overwrite_each_other(store: Store, tmp_path: Path) -> None:
    one, two = make_nodes(store, tmp_path)
    start([one, two])
    for node in (one, two):
        node.save(10, {"model.bin": b"of node %d" % node.node})
        node.say(10)
        node.look(1)
    start([one, two])
    assert one.files() == {"iter_10/model.bin": b"of node 0"}
    assert two.files() == {"iter_10/model.bin": b"of node 1"}


def test_another_number_of_ranks_is_refused_where_names_are_by_rank(store: Store, tmp_path: Path) -> None:
    pattern = ("iter_{step}/rank_{rank}.bin",)
    nodes = make_nodes(store, tmp_path, 2, layout=pattern)
    start(nodes)
    for node in nodes:
        node.publish(10)
    alone = TestNode(tmp_path / "alone", store, 0, 1, {"layout": pattern})
    with pytest.raises(ConfigError, match="was written by 2 ranks on 2 nodes, this job has 1"):
        alone.start()
    assert not alone.files(), "nothing was fetched for it"


def test_the_clocks_of_nodes_may_differ(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


def test_a_node_that_is_restarted_while_the_others_wait_takes_part(store: Store, tmp_path: Path) -> None:
    """Node 1 of three answers and dies; its next start answers while node 0 still waits for node 2."""
    nodes = make_nodes(store, tmp_path, 3)
    with ThreadPoolExecutor(3) as pool:
        started = [pool.submit(nodes[0].start)]
        with pytest.raises(NodesLate):
            nodes[1].start(timeout=1)
        started.append(pool.submit(nodes[1].start))
        eventually(lambda: sum("/ready-00001-" in key for key in keys(store)) >= 2, "node 1 answers again")
        started.append(pool.submit(nodes[2].start))
        assert [step_of(one.result()) for one in started] == [None] * 3
    assert any("two starts of node 1 have answered" in line for line in nodes[0].printed), nodes[0].printed


def test_a_node_that_is_restarted_after_the_go_is_told_what_it_waits_for(
    store: Store, tmp_path: Path
) -> None:
    one, two = make_nodes(store, tmp_path)
    start([one, two])
    with pytest.raises(NodesLate, match=r"attempt-000001-.... has gone on with an earlier start of node 1"):
        two.start(timeout=0.1)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"nodes": 2, "set": [{}]}', b'{"nodes": 2, "set": 7}']
)
def test_damaged_documents_of_an_attempt_stop_nobody(store: Store, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "damaged"
    file.write_bytes(content)
    for name in ("begin.json", "ready-00001-ab.json", "strange"):
        key = f"ckpt/.ma_boot/attempts/999990-abcd/{name}"
        store.write("bucket", key, file, hashlib.md5(content).hexdigest(), lambda size: None)
    assert [step_of(found) for found in start(make_nodes(store, tmp_path))] == [None, None]
