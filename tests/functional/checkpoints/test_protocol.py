"""Two nodes that save, call, publish, die and restart in any order, compared with a model of completeness.

In half of the runs the training calls `checkpoint`, in the others two patterns show complete steps. The model knows
the files that each training has written; a reader that shares no code with the toolkit finds the complete
checkpoints. No run restores an incomplete or a mixed one, none loses the newest, and every complete one is found.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ma_boot.errors import ConfigError
from ma_boot.node.checkpoints.records import attempt_protocol
from ma_boot.node.checkpoints.steps import RunEnd
from path_mapping.stores.open_store import open_store
from tests.functional.checkpoints.output import TestNode, step_of
from tests.functional.frameworks.checkpoint_jobs import complete_checkpoints

pytestmark = pytest.mark.timeout(400)
NODES = st.integers(0, 1)
STEPS = st.integers(1, 3)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, no_earlier_start_runs: None) -> None:
    """Nodes look for each other all the time."""
    monkeypatch.setattr(attempt_protocol, "LOOK_SECONDS", (0.005, 0.05))


class Dies(Exception):
    """The node is killed at a request."""


class TwoNodes(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp())
        (self.base / "obs/bucket").mkdir(parents=True)
        self.store = open_store({}, self.base / "obs")
        self.starts = 0
        self.is_explicit = True
        self.saves: dict[tuple[int, int], int] = {}  # how often a node has saved a step in this start
        # Attempt, step and version of the newest that counted.
        self.newest: tuple[int, int, int] | None = None
        self.nodes: list[TestNode] = []

    def teardown(self) -> None:
        shutil.rmtree(self.base)

    @initialize(keep=st.sampled_from([None, 1, 2]), is_explicit=st.booleans())
    def first_start(self, keep: int | None, is_explicit: bool) -> None:
        self.is_explicit = is_explicit
        patterns = ("iter_{step}",) if is_explicit else ("iter_{step}/a{rank}.bin", "iter_{step}/b{rank}.bin")
        options = {"keep": keep, "layout": patterns, "is_explicit": is_explicit}
        self.nodes = [TestNode(self.base / f"{node}", self.store, node, 2, dict(options)) for node in (0, 1)]
        self.start(None)

    @rule(lost_disk=st.sampled_from([None, 0, 1]))
    def start(self, lost_disk: int | None) -> None:
        """All nodes are killed and start again; one of them may have a new disk."""
        expected = self.complete()[-1] if self.complete() else None
        if lost_disk is not None:
            shutil.rmtree(self.nodes[lost_disk].base, ignore_errors=True)
        with ThreadPoolExecutor(2) as pool:
            restored = list(pool.map(lambda node: node.start(), self.nodes))
        self.starts += 1
        self.saves = {}
        step = str(expected[0][1]) if expected else None
        assert list(map(step_of, restored)) == [step, step]
        content = expected[1] if expected else {}
        for node in self.nodes:
            own = {path: text for path, text in content.items() if path.endswith(f"{node.node}.bin")}
            assert node.files() == (content if self.is_explicit else own)

    @rule(node=NODES, step=STEPS)
    def save_half(self, node: int, step: int) -> None:
        """Begins to save a step without a call for it."""
        if not self.saves.get((node, step)):
            self.nodes[node].save(step, {f"a{node}.bin": b"half"})

    @rule(node=NODES, step=STEPS)
    def save_and_call(self, node: int, step: int) -> None:
        """Saves a step and calls for it, if the run is explicit also again; the watch looks at once."""
        if not self.is_explicit and self.saves.get((node, step)):
            return
        times = self.saves[node, step] = self.saves.get((node, step), 0) + 1
        text = b"%d saved %d times of node %d in start %d" % (step, times, node, self.starts)
        self.nodes[node].save(step, {f"{name}{node}.bin": text for name in "ab"})
        if self.is_explicit:
            self.nodes[node].note_call(step)
        self.nodes[node].publisher.take()

    @rule(step=STEPS, sent=st.booleans())
    def train(self, step: int, sent: bool) -> None:
        """Both nodes save a step; what the framework has removed meanwhile was taken before."""
        for node in (0, 1):
            self.save_and_call(node, step)
            if sent:
                self.send(node)

    @rule(node=NODES, step=STEPS)
    def rotate(self, node: int, step: int) -> None:
        shutil.rmtree(self.nodes[node].out / f"iter_{step}", ignore_errors=True)

    @rule(node=NODES)
    def send(self, node: int) -> None:
        self.nodes[node].cycle(1 if self.is_explicit else 3)

    @rule(node=NODES, requests=st.integers(0, 6))
    def die(self, node: int, requests: int) -> None:
        """The node dies in the middle of its requests; the platform ends the other one, and starts both anew."""
        left = iter(range(requests))
        real = self.store.write_bytes

        def write(*of: Any) -> None:
            if next(left, None) is None:
                raise Dies
            real(*of)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.store, "write_bytes", write)
            with suppress(Dies):
                self.nodes[node].cycle(2)
        self.start(None)

    @rule(node=NODES, end=st.sampled_from(list(RunEnd)))
    def end(self, node: int, end: RunEnd) -> None:
        self.nodes[node].end(end)
        self.nodes[1 - node].end(end)
        self.start(None)

    @rule()
    def another_job(self) -> None:
        other = TestNode(self.base / "other", self.store, job="another")
        with pytest.raises(ConfigError, match="is in use"):
            other.start(timeout=1)

    def complete(self) -> list[tuple[tuple[int, int, int], dict[str, bytes]]]:
        """Returns the complete checkpoints in the store with their files, the oldest first."""
        return [
            (known["order"], {path: file.read_bytes() for path, file in known["files"].items()})
            for known in reversed(complete_checkpoints(self.base / "obs/bucket/ckpt"))
        ]

    @invariant()
    def none_is_incomplete_or_mixed(self) -> None:
        for (_, step, version), files in self.complete():
            assert set(files) == {f"iter_{step}/{name}{node}.bin" for name in "ab" for node in (0, 1)}
            words = {re.sub(r"of node \d ", "", content.decode()) for content in files.values()}
            assert len(words) == 1, words
            assert words.pop().startswith(f"{step} saved {version} times in start ")

    @invariant()
    def the_newest_is_never_removed(self) -> None:
        complete = self.complete()
        newest = complete[-1][0] if complete else None
        assert self.newest is None or (newest is not None and newest >= self.newest)
        self.newest = newest


TestProtocol = TwoNodes.TestCase
TestProtocol.settings = settings(
    max_examples=12, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
