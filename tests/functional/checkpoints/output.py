"""One node's checkpoint output in a test: its disk, and what it has said."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from path_mapping.checkpoints import CheckpointOutput, Restored
from path_mapping.mapping import ObsUrl, Route
from path_mapping.stores import FileStore
from path_mapping.transfer import RetryPolicy
from tests.transfers import tree, write


@dataclass
class TestNode:
    """A node with a disk of its own; `start` is a new start of its ma_boot."""

    __test__ = False

    base: Path
    store: FileStore
    node: int = 0
    nodes: int = 1
    options: Dict[str, Any] = field(default_factory=dict)
    said: List[str] = field(default_factory=list)
    published: List[str] = field(default_factory=list)
    ranks: Tuple[int, ...] = ()

    def start(self, timeout: float = 20.0) -> Restored:
        """Begins an attempt; the result says what was restored."""
        settings = {"checkpoint": ("iter_{step}",), "restore": "latest", "interval": 0.02, **self.options}
        route = Route("out", ObsUrl("bucket", "ckpt"), **settings)
        self.ended = threading.Event()
        self.output = CheckpointOutput(
            route, self.base, self.store, self.node, self.nodes, self.ranks or (self.node,), self.nodes,
            self.said.append, lambda step, files, size, seconds: self.published.append(step),
        )  # fmt: skip
        return self.output.begin(self.ended, lambda now: None, RetryPolicy(), timeout)

    def save(self, step: int, files: Optional[Dict[str, bytes]] = None) -> None:
        """Writes the files of a step."""
        content = files or {f"rank_{self.node}.bin": f"{step} of node {self.node}".encode() * 99}
        write(self.out, {f"iter_{step}/{name}": one for name, one in content.items()})

    def look(self, times: int = 8) -> None:
        """Looks at the disk so often that all that is there has settled."""
        for _ in range(times):
            self.ended.wait(0.01)
            assert self.output.publisher is not None
            self.output.publisher.look(self.output._documents(self.ended, RetryPolicy()))

    def publish(self, *steps: int) -> None:
        """Writes the files of these steps, one after the other, and looks until each is published."""
        for step in steps:
            self.save(step)
            self.look()

    def end(self, well: bool = True, hurry: bool = False) -> Dict[str, str]:
        """The training has ended."""
        return self.output.finish(self.ended, RetryPolicy(), well, hurry)

    @property
    def out(self) -> Path:
        return self.base / "out"

    def files(self) -> Dict[str, bytes]:
        """What a loader finds in the directory."""
        found = tree(self.out) if self.out.exists() else {}
        return {path: content for path, content in found.items() if not path.startswith(".ma_boot/")}


def step_of(restored: Restored) -> Optional[str]:
    return restored.chosen.step if restored.chosen else None


def keys(store: FileStore, prefix: str = "ckpt/") -> List[str]:
    return [found.key for found in store.list("bucket", prefix)]


def put(store: FileStore, key: str, source: Path) -> None:
    """Stores a file, as somebody else would."""
    store.write("bucket", key, source, hashlib.md5(source.read_bytes()).hexdigest(), lambda size: None)
