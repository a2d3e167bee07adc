"""The way to the other nodes by documents: two nodes, and a store that fails."""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Iterator, List, Optional, cast

import pytest

from ma_boot.checkpoints import CheckpointOutput, Notices
from ma_boot.checkpoints.attempts import NOTICE
from ma_boot.checkpoints.keys import Attempt, Place
from ma_boot.checkpoints.sets import Documents
from ma_boot.node import document_way
from ma_boot.node.document_way import DocumentWay
from ma_boot.node.job_channel import OtherNodes
from ma_boot.node.job_restart import AttemptEnd, RestartPolicy
from ma_boot.node.world import World
from ma_boot.processes import SignalInbox
from ma_boot.reporting import RunResult
from path_mapping.errors import StoreError
from path_mapping.stores import Store, StoredObject
from path_mapping.stores.directory_store import DirectoryStore
from path_mapping.transfer import RetriedStore, RetryPolicy
from tests.functional.node import eventually
from tests.functional.supervisor.conftest import EventLog, inbox as inbox, journal as journal


class FailingStore(DirectoryStore):
    """A store of which so many `writes` fail, though the object is there."""

    writes = 0
    listings = 0

    def write_bytes(self, bucket: str, key: str, content: bytes) -> str:
        etag = super().write_bytes(bucket, key, content)
        if self.writes:
            self.writes -= 1
            raise StoreError("no answer")
        return etag

    def list(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        yield from super().list(bucket, prefix)
        self.listings += 1


class Nodes:
    """Nodes 0, 1 and 2 of a job in the attempt of this number."""

    def __init__(self, root: Path, inbox: SignalInbox) -> None:
        self.store, self.number = FailingStore(root), 1
        self.ways = [DocumentWay(partial(self.notices, node), inbox) for node in range(3)]

    def notices(self, node: int, cancel: threading.Event, store: Optional[Store] = None) -> Notices:
        documents = Documents(
            RetriedStore(store or self.store, cancel, RetryPolicy(0.0)), Place("bucket", "ckpt/")
        )
        return Notices(documents, Attempt(self.number, "3f9c"), node)


@pytest.fixture
def nodes(tmp_path: Path, inbox: SignalInbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    (tmp_path / "bucket").mkdir()
    monkeypatch.setattr(document_way, "WATCH_SECONDS", 0.02)
    monkeypatch.setattr(document_way, "AGREE_SECONDS", 0.02)
    nodes = Nodes(tmp_path, inbox)
    yield nodes
    for way in nodes.ways:
        way.close()


def heard(way: DocumentWay, count: int) -> List[Any]:
    """The messages of a node, once there are so many."""
    messages: List[Any] = []

    def are_there() -> bool:
        messages.extend(way.heard())
        return len(messages) >= count

    eventually(are_there, f"{count} messages", 5)
    return sorted((message.node, message.kind, message.body) for message in messages)


def test_node_0_hears_all_and_the_others_hear_node_0(nodes: Nodes) -> None:
    nodes.ways[1].tell("failed", {"attempt": 1})
    nodes.ways[1].tell("hanging", {})
    nodes.ways[2].tell("stopped", {"attempt": 1})
    assert heard(nodes.ways[0], 2) == [(1, "failed", {"attempt": 1}), (2, "stopped", {"attempt": 1})]
    nodes.ways[0].tell("go", {"again": True})
    assert [heard(way, 1) for way in nodes.ways[1:]] == [[(0, "go", {"again": True})]] * 2
    assert [way.heard() for way in nodes.ways] == [[], [], []]


def test_what_a_store_has_not_confirmed_is_written_again_and_heard_once(nodes: Nodes) -> None:
    nodes.store.writes = 2
    for kind in ("stopped", "left"):
        nodes.ways[1].tell(kind, {})
    assert nodes.ways[1].flush(5)
    assert heard(nodes.ways[0], 2) == [(1, "left", {}), (1, "stopped", {})]
    assert nodes.ways[0].heard() == []


def test_a_new_attempt_hears_nothing_of_the_one_before(nodes: Nodes) -> None:
    nodes.ways[1].tell("failed", {"attempt": 1})
    assert heard(nodes.ways[0], 1)
    nodes.number = 2
    for way in nodes.ways:
        way.begin()
    nodes.ways[2].tell("failed", {"attempt": 2})
    assert heard(nodes.ways[0], 1) == [(2, "failed", {"attempt": 2})]


def test_node_0_looks_often_once_its_own_ranks_are_dead(
    nodes: Nodes, tmp_path: Path, inbox: SignalInbox, journal: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it has told and heard nothing: its ranks hung before the others were stopped."""
    monkeypatch.setattr(document_way, "WATCH_SECONDS", 600.0)
    store = FailingStore(tmp_path)
    checkpoints: Any = SimpleNamespace(notices=partial(nodes.notices, 0, store=store))
    with OtherNodes(World({}, "host", "", inbox, journal)) as others:
        others.nodes = 2
        others.restart_together(RestartPolicy(1), cast(CheckpointOutput, checkpoints))
        eventually(lambda: store.listings > 0, "it has looked")
        nodes.ways[1].tell("stopped", AttemptEnd(1)._asdict())
        assert nodes.ways[1].flush(5)
        began = time.monotonic()
        assert others.agreed(AttemptEnd(1), RunResult(())).again
        assert time.monotonic() - began < 10


@pytest.mark.parametrize("name", ["notice-00001-0000-go.json.tmp", "notice-1-0000-go.json", "go.json"])
def test_another_document_is_no_notice(name: str) -> None:
    assert NOTICE.fullmatch(name) is None
