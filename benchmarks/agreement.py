"""Requests and seconds that many nodes need to agree on the checkpoint to resume from.

Every node is the product's own `AttemptStart`, in a thread of its own. The store is in memory and answers
after 20 milliseconds, as OBS does in its region; it counts requests, also of each page of listings.
"""

from __future__ import annotations

import bisect
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tables

from ma_boot.node.checkpoints.attempts import AttemptStart
from ma_boot.node.checkpoints.checkpoint_route import CheckpointRoute
from ma_boot.node.checkpoints.options import CheckpointOptions
from ma_boot.node.checkpoints.records.documents import Documents
from ma_boot.node.checkpoints.records.job_member import JobMember
from ma_boot.node.checkpoints.records.keys import Place
from path_mapping.errors import NotFound
from path_mapping.mapping.routes import ObsUrl, Route
from path_mapping.stores.objects import StoredObject
from path_mapping.stores.store import Store
from path_mapping.workers.retry import RetriedStore

ANSWERS_AFTER = 0.02  # seconds
PAGE = 1000  # keys
HEAD = """\
| nodes | seconds | LIST | GET | PUT | requests of a node | LIST in the worst second |
|---|---|---|---|---|---|---|"""


class Counted(Store):
    """Objects in memory, whose requests are counted."""

    def __init__(self) -> None:
        self.made: list[tuple[str, int]] = []  # the kinds, and the second of each
        self._lock = threading.Lock()
        self._objects: dict[str, bytes] = {}
        self._keys: list[str] = []

    def _answer(self, kind: str) -> None:
        self.made.append((kind, int(time.monotonic())))
        time.sleep(ANSWERS_AFTER)

    def list(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        after = prefix
        while True:
            self._answer("LIST")
            with self._lock:
                first = bisect.bisect_left(self._keys, after)
                keys = self._keys[first : first + PAGE]
            yield from (
                StoredObject(key, len(self._objects.get(key, b"")), "")
                for key in keys
                if key.startswith(prefix)
            )
            if len(keys) < PAGE or not keys[-1].startswith(prefix):
                return
            after = keys[-1] + "\0"

    def read(self, bucket: str, key: str) -> Iterator[bytes]:
        self._answer("GET")
        if key not in self._objects:
            raise NotFound(key)
        yield self._objects[key]

    def write_bytes(self, bucket: str, key: str, content: bytes) -> str:
        self._answer("PUT")
        with self._lock:
            if key not in self._objects:
                bisect.insort(self._keys, key)
            self._objects[key] = content
        return ""

    def _not_here(self, *arguments: Any) -> Any:
        raise NotImplementedError

    runner = level = find = read_from = write = copy = delete = _not_here  # type: ignore[assignment]


def row(nodes: int) -> str:
    """The first start of a job of this size."""
    store, place = Counted(), Place("bucket", "ckpt/")

    def begin_attempt(node: int) -> None:
        documents = Documents(RetriedStore(store), place)
        target = CheckpointRoute(
            route=Route("out", ObsUrl("bucket", "ckpt")),
            options=CheckpointOptions(("iter_{step}",)),
            base=Path("/nowhere"),
            store=store,
            member=JobMember(node, nodes, ranks=(node,), world_size=nodes, job="j", start="now"),
            say=lambda line: None,
            report=lambda step, files, size, seconds: None,
        )
        AttemptStart(target, documents, 600.0, lambda chosen: (0, 0)).begin()

    began = time.monotonic()
    with ThreadPoolExecutor(nodes) as pool:
        list(pool.map(begin_attempt, range(nodes)))
    seconds, kinds = time.monotonic() - began, Counter(kind for kind, _ in store.made)
    worst = max(Counter(second for kind, second in store.made if kind == "LIST").values())
    counts = " | ".join(f"{kinds[kind]:,}" for kind in ("LIST", "GET", "PUT"))
    return f"| {nodes:,} | {seconds:.1f} | {counts} | {len(store.made) / nodes:.1f} | {worst:,} |"


def main() -> None:
    """Writes the table."""
    table = [HEAD]
    for nodes in map(int, sys.argv[1:] or ("32", "256", "2048")):
        table.append(row(nodes))
        print(table[-1], flush=True)
    tables.write("agreement", "\n".join(table))


if __name__ == "__main__":
    main()
