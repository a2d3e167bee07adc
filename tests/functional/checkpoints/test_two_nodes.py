"""Nodes that share only the store: a step is complete with all parts, and all nodes resume from the same one."""

from __future__ import annotations

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ma_boot.errors import ConfigError, NodesLate
from ma_boot.node.checkpoints.steps import RunEnd
from path_mapping.stores.store import Store
from path_mapping.workers.retry import RetryPolicy
from tests.functional.checkpoints.output import (
    TestNode,
    keys,
    make_nodes,
    printed,
    publish,
    put,
    start,
    step_of,
)
from tests.functional.node import eventually


@pytest.mark.invariant("A start resumes from the newest complete checkpoint, after a kill at any moment")
@pytest.mark.invariant("A step is complete by an explicit call or by its files, never by silence")
def test_step_is_complete_only_with_the_parts_of_all_nodes(store: Store, tmp_path: Path) -> None:
    """A kept disk gets what it does not have, a new one everything."""
    first, second = nodes = make_nodes(store, tmp_path)
    assert list(map(step_of, start(nodes))) == [None, None]
    publish(nodes, 10)
    first.publish(20)
    assert [(step_of(restored), restored.files) for restored in start(nodes)] == [("10", 1), ("10", 1)]
    assert first.files() == second.files(), "every node has all of it, and nothing else"
    assert set(first.files()) == {"iter_10/rank_0.bin", "iter_10/rank_1.bin"}
    shutil.rmtree(first.out)
    assert [restored.files for restored in start(nodes)] == [2, 0]
    assert first.files() == second.files()


def test_a_node_that_never_comes_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(NodesLate, match="nodes 1, 2 to have the checkpoints"):
        TestNode(tmp_path, store, 0, 3).start(timeout=0.5)
    with pytest.raises(NodesLate, match="node 0 to begin a new attempt"):
        TestNode(tmp_path, store, 1, 3).start(timeout=0.5)


@pytest.mark.invariant("Documents of a dead start are never answers to a living one")
def test_answers_of_a_dead_start_are_ignored(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Node 1 has answered an attempt whose leader is dead, and died."""
    monkeypatch.setattr("ma_boot.node.checkpoints.attempts.write_end", lambda *of: None)  # it was killed
    nodes = make_nodes(store, tmp_path)
    for node in nodes:
        with pytest.raises(NodesLate):
            node.start(timeout=0.4)
    assert [key for key in keys(store) if "ready-" in key]
    assert list(map(step_of, start(nodes))) == [None, None]


def test_same_file_names_of_two_nodes_do_not_collide(store: Store, tmp_path: Path) -> None:
    nodes = make_nodes(store, tmp_path)
    start(nodes)
    for node in nodes:
        node.save(10, {"model.bin": b"of node %d" % node.node})
        node.note_call(10)
        node.cycle(1)
    start(nodes)
    assert [node.files() for node in nodes] == [{"iter_10/model.bin": b"of node %d" % n} for n in (0, 1)]


def test_another_number_of_ranks_is_refused_where_names_are_by_rank(store: Store, tmp_path: Path) -> None:
    pattern = ("iter_{step}/rank_{rank}.bin",)
    nodes = make_nodes(store, tmp_path, 2, layout=pattern)
    start(nodes)
    publish(nodes, 10)
    alone = TestNode(tmp_path / "alone", store, 0, 1, {"layout": pattern})
    with pytest.raises(ConfigError, match="was written by 2 ranks on 2 nodes, this job has 1"):
        alone.start()
    assert not alone.files(), "nothing was downloaded for it"


def test_the_clocks_of_nodes_may_differ(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = nodes = make_nodes(store, tmp_path)
    start(nodes)
    for step in (10, 20):
        for node, minutes in ((first, 10 if step == 10 else -10), (second, 0)):
            ahead = time.time() + 60 * minutes
            monkeypatch.setattr(time, "gmtime", lambda *at, ahead=ahead: time.localtime(ahead))
            node.save(step)
            for path in (node.out / f"iter_{step}").iterdir():
                os.utime(path, (ahead, ahead))
            node.cycle()
    assert list(map(step_of, start(nodes))) == ["20", "20"]


def test_node_restarted_during_the_wait_takes_part(store: Store, tmp_path: Path) -> None:
    """Node 1 of three answers and dies; its next start answers while node 0 still waits for node 2."""
    nodes = make_nodes(store, tmp_path, 3)
    with ThreadPoolExecutor(3) as pool:
        started = [pool.submit(nodes[0].start)]
        with pytest.raises(NodesLate):
            nodes[1].start(timeout=1)
        started.append(pool.submit(nodes[1].start))
        eventually(lambda: sum("/ready-00001-" in key for key in keys(store)) >= 2, "node 1 answers again")
        started.append(pool.submit(nodes[2].start))
        assert [step_of(future.result()) for future in started] == [None] * 3
    assert any("two boots of node 1 have answered" in line for line in nodes[0].printed), nodes[0].printed


def test_node_restarted_after_the_go_reports_its_wait(store: Store, tmp_path: Path) -> None:
    nodes = make_nodes(store, tmp_path)
    start(nodes)
    with pytest.raises(NodesLate, match=r"attempt-000001-.... has started with an earlier boot of node 1"):
        nodes[1].start(timeout=0.1)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"nodes": 2, "parts": [{}]}', b'{"nodes": 2, "parts": 7}']
)
def test_damaged_documents_of_an_attempt_are_ignored(store: Store, tmp_path: Path, content: bytes) -> None:
    for name in ("begin.json", "ready-00001-ab.json", "strange"):
        put(store, f"ckpt/.ma_boot/attempts/999990-abcd/{name}", content)
    assert list(map(step_of, start(make_nodes(store, tmp_path)))) == [None, None]


def test_restart_in_place_reports_no_incomplete_step(store: Store, tmp_path: Path) -> None:
    """Node 0 has published a step that node 1 publishes at this moment; then the next attempt does not begin."""
    first, _ = nodes = make_nodes(store, tmp_path)
    start(nodes)
    publish(nodes, 10)
    first.publish(20)
    first.output.finish(first.ended, RetryPolicy(), RunEnd.CUT, goes_on=True)
    assert not [line for line in first.printed if "INCOMPLETE" in line], first.printed
    with pytest.raises(NodesLate):
        first.output.begin(first.ended, lambda now: None, RetryPolicy(), 0.3)
    first.publisher.upkeep.looked = 0.0
    first.end(RunEnd.CUT)
    assert not [line for line in first.printed if "TWO STARTS" in line], first.printed
    assert [line for line in first.printed if "INCOMPLETE" in line], "the job is over, and node 1 has gone"


def test_good_end_reports_no_step_that_a_peer_still_publishes(store: Store, tmp_path: Path) -> None:
    first, second = nodes = make_nodes(store, tmp_path)
    start(nodes)
    publish(nodes, 10)
    first.publish(20)
    first.end()
    assert not printed(nodes, "INCOMPLETE")
    second.end()
    assert len(printed(nodes, "INCOMPLETE")) == 1, "node 1 has never published step 20"
