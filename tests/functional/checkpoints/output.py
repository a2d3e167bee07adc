"""A node's output with checkpoints in a test: its disk, its store and its printed lines."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from ma_boot.node.checkpoints.attempts import BegunAttempt
from ma_boot.node.checkpoints.checkpoint_route import CheckpointRoute
from ma_boot.node.checkpoints.options import CheckpointOptions
from ma_boot.node.checkpoints.output import CheckpointOutput, ordinary_files
from ma_boot.node.checkpoints.publisher import Publisher
from ma_boot.node.checkpoints.records.documents import Documents
from ma_boot.node.checkpoints.records.job_member import JobMember
from ma_boot.node.checkpoints.records.keys import Place
from ma_boot.node.checkpoints.steps import RunEnd
from ma_boot.node.transfers.mapping import NodeTransfers
from ma_boot.node.transfers.uploads import CheckpointsFirst, UploadTerms, upload_outputs
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.console import Console
from ma_boot.report.journal import Journal
from ma_boot.training import checkpoint
from ma_boot.training.checkpoint_note import SPOOL
from path_mapping.mapping.routes import ObsUrl, PathMapping, Route
from path_mapping.mapping.selection import Shard
from path_mapping.stores.store import Store
from path_mapping.workers.retry import RetriedStore, RetryPolicy
from tests.transfers import tree, write

PLACE = Place("bucket", "ckpt/")
FIRST = "the first step is complete when the next one begins here, or the training ends well"


@dataclass
class TestNode:
    """A node with a disk of its own; `start` is a new start of its ma_boot."""

    __test__ = False

    base: Path
    store: Store
    node: int = 0
    nodes: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    printed: list[str] = field(default_factory=list)
    published: list[str] = field(default_factory=list)
    ranks: tuple[int, ...] = ()
    job: str = "job"
    job_start: str = "its start"
    take_over: bool = False

    def start(self, timeout: float = 20.0) -> BegunAttempt:
        """Begins an attempt; returns it with the restored checkpoint."""
        settings = {"layout": ("iter_{step}",), "restore": True, **self.options}
        interval = settings.pop("interval", 0.02)
        options = CheckpointOptions(**settings)
        route = Route("out", ObsUrl("bucket", "ckpt"), interval=interval, more=options)
        self.ended = threading.Event()
        member = JobMember(
            self.node,
            self.nodes,
            ranks=self.ranks or (self.node,),
            world_size=self.nodes,
            job=self.job,
            start=self.job_start,
        )
        target = CheckpointRoute(
            route=route,
            options=options,
            base=self.base,
            store=self.store,
            member=member,
            say=self.printed.append,
            report=lambda step, files, size, seconds: self.published.append(step),
            take_over=self.take_over,
        )
        self.output = CheckpointOutput(target)
        return self.output.begin(self.ended, lambda now: None, RetryPolicy(), timeout)

    def save(self, step: int, files: dict[str, bytes] | None = None) -> None:
        """Writes the files of a step."""
        contents = files or {f"rank_{self.node}.bin": f"{step} of node {self.node}".encode() * 99}
        write(self.out, {f"iter_{step}/{name}": content for name, content in contents.items()})

    def note_call(self, step: int, rank: int | None = None) -> None:
        """Notes a call of `checkpoint` by a rank, without a time."""
        note = {"step": step, "rank": self.node if rank is None else rank}
        with (self.output.spool / f"{note['rank']}.jsonl").open("a") as file:
            file.write(json.dumps(note) + "\n")

    def call(self, step: int, rank: int | None = None) -> None:
        """Calls `checkpoint` as a rank of the training."""
        environ = {SPOOL: str(self.output.spool), "RANK": str(self.node if rank is None else rank)}
        with patch.dict(os.environ, environ):
            checkpoint(step)

    def cycle(self, times: int = 4) -> None:
        """Looks at the disk until all files are at rest, and publishes complete steps."""
        for _ in range(times):
            self.ended.wait(0.011)
            self.publisher.take()
            documents = Documents(RetriedStore(self.store, self.ended, RetryPolicy()), PLACE)
            while self.publisher.send(documents):
                pass
            self.publisher.tend(documents)

    def publish(self, *steps: int) -> None:
        """Writes the files of these steps, one after the other, and notes a call for each."""
        for step in steps:
            self.save(step)
            self.note_call(step)
            self.cycle(1)

    def end(self, ending: RunEnd = RunEnd.WELL) -> dict[str, str]:
        """Publishes the last steps after the end of the training."""
        return self.output.finish(self.ended, RetryPolicy(), ending)

    @property
    def publisher(self) -> Publisher:
        return self.output.publisher

    @property
    def attempt(self) -> str:
        return str(self.publisher.attempt)

    @property
    def out(self) -> Path:
        return self.base / "out"

    def files(self) -> dict[str, bytes]:
        """Returns the files that a loader finds in the directory."""
        files = tree(self.out) if self.out.exists() else {}
        return {path: content for path, content in files.items() if not path.startswith(".ma_boot/")}


def node_with(store: Store, base: Path, *steps: int, **options: object) -> TestNode:
    """Returns a node that has published these steps."""
    node = TestNode(base, store, options=options)
    node.start()
    node.publish(*steps)
    return node


def make_nodes(store: Store, base: Path, count: int = 2, **options: object) -> list[TestNode]:
    return [TestNode(base / f"disk{node}", store, node, count, dict(options)) for node in range(count)]


def start(nodes: Sequence[TestNode]) -> list[BegunAttempt]:
    """Starts all nodes at the same time."""
    with ThreadPoolExecutor(len(nodes)) as pool:
        return list(pool.map(lambda node: node.start(), nodes))


def publish(nodes: Sequence[TestNode], *steps: int) -> None:
    """Publishes these steps on all nodes, one node after the other."""
    for node in nodes:
        node.publish(*steps)


def step_of(restored: BegunAttempt) -> str | None:
    return restored.checkpoint.step if restored.checkpoint else None


def keys(store: Store, prefix: str = "ckpt/") -> list[str]:
    return [stored.key for stored in store.list("bucket", prefix)]


def manifests(store: Store) -> list[str]:
    return keys(store, PLACE.manifests)


def steps_of(keys_of_manifests: Iterable[str]) -> list[int]:
    """Returns the steps of the complete checkpoints, the newest first."""
    return [known.name.step for known in PLACE.list_checkpoints(keys_of_manifests) if known.is_complete]


def put(store: Store, key: str, content: bytes) -> None:
    """Stores an object, as another program would."""
    store.write_bytes("bucket", key, content)


def printed(nodes: Sequence[TestNode], text: str) -> list[str]:
    """Returns the lines of these nodes with this text."""
    return [line for node in nodes for line in node.printed if text in line]


def upload(node: TestNode, ending: RunEnd) -> list[str]:
    """Runs the last uploads of a node; returns their problems."""
    route = node.output.target.route
    transfers = NodeTransfers(PathMapping((), (route,)), node.store, node.base, Shard(node.node, node.nodes))

    def publish(cancel: threading.Event, patience: RetryPolicy) -> list[str]:
        node.output.finish(cancel, patience, ending)
        return []

    first = CheckpointsFirst(publish, partial(ordinary_files, [route], node.base, [node.output]))
    with SignalInbox() as inbox, Console() as console:
        terms = UploadTerms(missing="nothing at", checkpoints=first)
        lost = upload_outputs(transfers, Journal(console), inbox, terms)
    return [str(lost)] if lost is not None else []
