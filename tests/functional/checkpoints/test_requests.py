"""Requests of checkpoints, counted by the embedded server."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ma_boot.node.checkpoints.records import attempt_protocol
from ma_boot.node.checkpoints.records.job_member import JobMember
from ma_boot.node.checkpoints.records.keys import Attempt, CheckpointName
from ma_boot.node.checkpoints.records.manifest import CheckpointFile, Part
from path_mapping.stores.open_store import open_store
from path_mapping.stores.store import Store
from tests.conftest import CREDENTIALS
from tests.functional.checkpoints.output import PLACE, TestNode, put, step_of
from tests.obs import MemoryObs

FILES = 8


@pytest.fixture
def served(obs: MemoryObs) -> Store:
    return open_store({"OBS_ENDPOINT": obs.url, **CREDENTIALS}, None)


LARGE = pytest.param(
    64 << 20, 100, marks=[pytest.mark.kill, pytest.mark.timeout(600)]
)  # with `make test-kill`


@pytest.mark.parametrize(("size", "keep"), [(1 << 16, None), (1 << 16, 100), LARGE])
def test_a_step_costs_at_most_three_requests_more_than_its_files(
    obs: MemoryObs, served: Store, tmp_path: Path, size: int, keep: object
) -> None:
    node = TestNode(tmp_path, served, options={"keep": keep})
    node.start()
    for step, once in ((10, 1 if keep else 0), (20, 0)):  # once in an attempt: what a killed one has left
        before = len(obs.requests)
        node.save(step, {f"shard_{number}.bin": os.urandom(size) for number in range(FILES)})
        node.note_call(step)
        node.cycle(2)
        made = obs.requests[before:]
        timed = "attempts%2F"  # a listing each half minute, however long the step takes
        more = [request for request in made if "/shard_" not in request[1] and timed not in request[1]]
        print(f"{FILES} x {size:,} bytes: {len(made)} requests, {len(more)} of them not for files: {more}")
        sent = {path.partition("?")[0] for method, path, *_ in made if method == "PUT" and "/shard_" in path}
        assert len(sent) == FILES  # large ones in parts
        assert len(more) <= 3 + once


def test_the_newest_of_a_thousand_steps_costs_a_few_requests_and_one_for_each_node(
    obs: MemoryObs, served: Store, tmp_path: Path
) -> None:
    nodes = 2
    attempt = Attempt(1, "abcd")
    for step in range(1000):
        for index in range(nodes):
            name, key = CheckpointName(attempt, step), f"{attempt}/node-{index}/iter_{step}/x"
            files = (CheckpointFile(f"iter_{step}/x{index}", key, 0, 0, ""),)
            member = JobMember(index, nodes, world_size=nodes)
            part = Part(name, str(step), member, layout="iter_{step}", files=files, saver=index, of=nodes)
            put(served, PLACE.part(part.key), json.dumps(part.document()).encode())
            if step == 999:
                put(served, PLACE.prefix + key, b"")
    begin = {"job": "job", "start": "", "nodes": nodes}
    put(served, PLACE.of_attempt(attempt, "begin.json"), json.dumps(begin).encode())
    before = len(obs.requests)
    alone = TestNode(tmp_path, served)
    assert step_of(alone.start()) == "999"
    made = obs.requests[before:]
    finding = [path for method, path, *_ in made if method == "GET" and "/iter_" not in path]
    pages = nodes  # of the manifests, as a second page is asked for ahead
    assert len(finding) <= 3 + pages + nodes, "\n".join(finding)
    for step in range(1000, 1010):  # the first one looks once through what killed starts have left
        before = len(obs.requests)
        alone.publish(step)
    timed = "attempts%2F"  # a listing now and then, however long a step takes
    more = [path for _, path, *_ in obs.requests[before:] if "/iter_" not in path and timed not in path]
    assert len(more) == 1, "of its own, whatever is older: the manifest"


def test_many_nodes_that_wait_for_one_list_no_more_often_than_an_account_may(
    obs: MemoryObs, served: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each new answer is news for all: 40 nodes listed 100 times a second."""
    monkeypatch.setattr(attempt_protocol, "LISTINGS_A_SECOND", 20)
    nodes = [TestNode(tmp_path / str(node), served, node, 40) for node in range(40)]
    before, began = len(obs.requests), time.monotonic()
    with ThreadPoolExecutor(40) as pool:
        starts = [pool.submit(node.start) for node in nodes[:-1]]
        time.sleep(3)  # so late is the last node
        starts.append(pool.submit(nodes[-1].start))
        assert {step_of(start.result()) for start in starts} == {None}
    seconds = time.monotonic() - began
    listings = [path for method, path, *_ in obs.requests[before:] if method == "GET" and "prefix=" in path]
    assert len(listings) < 3 * 40 + 20 * seconds, f"in {seconds:.1f} s"
    assert len(obs.requests) - before < 40 * (10 + seconds), "the go is asked for with growing pauses"
